#include "router/http/byte_stream.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

using Outcome = ByteStream::Outcome;

bool MustWait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// OpenSSL's own way to a socket raises SIGPIPE when the other side is gone.
int DescriptorOf(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int WriteSocket(BIO* bio, const char* bytes, size_t size, size_t* written) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(DescriptorOf(bio), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (MustWait()) BIO_set_retry_write(bio);
    return 0;
  }
  *written = static_cast<size_t>(sent);
  return 1;
}

int ReadSocket(BIO* bio, char* buffer, size_t size, size_t* read) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = recv(DescriptorOf(bio), buffer, size, MSG_DONTWAIT);
  if (received <= 0) {
    if (received < 0 && MustWait()) BIO_set_retry_read(bio);
    if (received == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return 0;
  }
  *read = static_cast<size_t>(received);
  return 1;
}

long ControlSocket(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* SocketMethod() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BATON_CHECK(made != nullptr, "OpenSSL must have memory for a BIO method");
    BIO_meth_set_write_ex(made, WriteSocket);
    BIO_meth_set_read_ex(made, ReadSocket);
    BIO_meth_set_ctrl(made, ControlSocket);
    return made;
  }();
  return method;
}

ByteStream::Result OfCall(ssize_t returned) {
  if (returned > 0) return {.outcome = Outcome::kDone, .bytes = static_cast<size_t>(returned)};
  return {.outcome = Outcome::kBroken};
}

}  // namespace

ByteStream::ByteStream(int descriptor, SslSession session)
    : descriptor_(descriptor), session_(std::move(session)) {
  if (session_ == nullptr) return;
  BIO* bio = BIO_new(SocketMethod());
  BATON_CHECK(bio != nullptr, "OpenSSL must have memory for a BIO");
  BIO_set_data(bio, reinterpret_cast<void*>(intptr_t{descriptor_}));
  BIO_set_init(bio, 1);
  SSL_set_bio(session_.get(), bio, bio);
}

template <typename Call>
ByteStream::Result ByteStream::OfSession(Call call) {
  ERR_clear_error();  // what others on this thread have left there counts as the call's
  const int returned = call(session_.get());
  if (returned > 0) return {.outcome = Outcome::kDone, .bytes = 0};
  const int error = SSL_get_error(session_.get(), returned);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ) return {.outcome = Outcome::kWantsToRead};
  if (error == SSL_ERROR_WANT_WRITE) return {.outcome = Outcome::kWantsToWrite};
  return {.outcome = error == SSL_ERROR_ZERO_RETURN ? Outcome::kEnd : Outcome::kBroken};
}

ByteStream::Result ByteStream::Handshake() {
  return session_ == nullptr ? Result{} : OfSession(SSL_accept);
}

ByteStream::Result ByteStream::Read(char* buffer, size_t size) {
  if (session_ != nullptr) {
    size_t bytes = 0;
    Result result =
        OfSession([&](SSL* session) { return SSL_read_ex(session, buffer, size, &bytes); });
    result.bytes = bytes;
    return result;
  }
  const ssize_t received = recv(descriptor_, buffer, size, MSG_DONTWAIT);
  if (received < 0 && MustWait()) return {.outcome = Outcome::kWantsToRead};
  if (received == 0) return {.outcome = Outcome::kEnd};
  return OfCall(received);
}

ByteStream::Result ByteStream::Write(absl::string_view bytes) {
  if (session_ != nullptr) {
    size_t written = 0;
    Result result = OfSession(
        [&](SSL* session) { return SSL_write_ex(session, bytes.data(), bytes.size(), &written); });
    result.bytes = written;
    return result;
  }
  const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && MustWait()) return {.outcome = Outcome::kWantsToWrite};
  return OfCall(sent);
}

void ByteStream::EndWriting() {
  if (session_ != nullptr) {
    SSL_shutdown(session_.get());
    ERR_clear_error();
  }
  shutdown(descriptor_, SHUT_WR);
}

}  // namespace baton
