#include "router/http/byte_stream.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

namespace baton {
namespace {

using Outcome = ByteStream::Outcome;

// A session without certificates.
SslSession NewSession() {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_method()),
                                                             SSL_CTX_free);
  EXPECT_EQ(SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION), 1);
  EXPECT_EQ(SSL_CTX_set_cipher_list(context.get(), "AECDH:@SECLEVEL=0"), 1);
  return SslSession(SSL_new(context.get()));
}

TEST(ByteStreamTest, WhatFailedElsewhereOnTheThreadIsNotTakenForItsOwnFailure) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  ByteStream stream(ends[0], NewSession());
  const SslSession client = NewSession();
  SSL_set_fd(client.get(), ends[1]);
  ByteStream::Result result{.outcome = Outcome::kWantsToRead};
  for (int i = 0; i < 10 && result.outcome == Outcome::kWantsToRead; ++i) {
    SSL_connect(client.get());
    result = stream.Handshake();
  }
  ASSERT_EQ(result.outcome, Outcome::kDone);
  ERR_raise(ERR_LIB_USER, 1);
  char byte = 0;
  EXPECT_EQ(stream.Read(&byte, 1).outcome, Outcome::kWantsToRead);
  close(ends[1]);
  close(ends[0]);
}

}  // namespace
}  // namespace baton
