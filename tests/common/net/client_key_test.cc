#include "common/net/client_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "grpcpp/test/client_context_test_peer.h"

namespace baton {
namespace {

using testing::HasSubstr;

class ClientKeyTest : public testing::Test {
 protected:
  ~ClientKeyTest() override {
    unsetenv("BATON_API_KEY");
    unlink(path_.c_str());
  }
  std::string FileWith(const std::string& content) const {
    std::ofstream(path_) << content;
    return path_;
  }
  // The header that a call gets, or the error.
  static std::string Shown(const std::string& file, const std::string& address = "127.0.0.1:1",
                           const Credentials& credentials = Credentials::Loopback()) {
    const auto key = ClientKey::Read(file, address, credentials);
    if (!key.ok()) return std::string(key.status().message());
    grpc::ClientContext context;
    key->AddTo(context);
    const auto metadata = grpc::testing::ClientContextTestPeer(&context).GetSendInitialMetadata();
    const auto found = metadata.find("authorization");
    return found == metadata.end() ? "" : found->second;
  }

  const std::string path_ = testing::TempDir() + "client_key_test";
};

TEST_F(ClientKeyTest, ComesFromTheFileOrElseFromTheEnvironment) {
  EXPECT_EQ(Shown(""), "");
  setenv("BATON_API_KEY", "from-variable", 1);
  EXPECT_EQ(Shown(""), "Bearer from-variable");
  EXPECT_EQ(Shown(FileWith("from-file\n")), "Bearer from-file");
  EXPECT_EQ(Shown(FileWith("\xef\xbb\xbf"
                           "from-file\r\n")),
            "Bearer from-file");
}

TEST_F(ClientKeyTest, IsNotSentInPlainTextBeyondLoopback) {
  setenv("BATON_API_KEY", "secret", 1);
  const std::string error = Shown("", "10.0.0.1:1");
  EXPECT_THAT(error, HasSubstr("10.0.0.1:1 in plain text"));
  EXPECT_THAT(error, HasSubstr("--tls-ca"));
  EXPECT_THAT(error, HasSubstr("--insecure"));
  EXPECT_EQ(error.find("secret"), std::string::npos);
  EXPECT_EQ(Shown("", "unix:/run/baton"), "Bearer secret");
}

TEST_F(ClientKeyTest, IsSentInPlainTextWhereThatWasAllowed) {
  setenv("BATON_API_KEY", "secret", 1);
  TlsFlags tls;
  tls.insecure = true;
  const auto insecure = Credentials::Create(tls);
  ASSERT_TRUE(insecure.ok()) << insecure.status();
  EXPECT_EQ(Shown("", "10.0.0.1:1", *insecure), "Bearer secret");
}

TEST_F(ClientKeyTest, WhatIsNotOneLineIsRefusedAndNotRepeated) {
  for (const std::string& content :
       {std::string(), std::string("\n"), std::string("secret one\n"),
        std::string("secret\nsecret\n"), "secret" + std::string(300, 'x'),
        std::string("secret\0x", 8)}) {
    const std::string error = Shown(FileWith(content));
    EXPECT_THAT(error, HasSubstr("--api-key-file " + path_ + ": contains no API key"));
    EXPECT_EQ(error.find("secret"), std::string::npos);
  }
  EXPECT_THAT(Shown("/nowhere"), HasSubstr("--api-key-file /nowhere: No such file"));
}

}  // namespace
}  // namespace baton
