#include "common/net/credentials.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/net/channel.h"
#include "common/net/server.h"
#include "tests/common/net/test_service.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// Certificates that the openssl command makes for each run of the test.
class CredentialsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = ::testing::TempDir() + "baton_credentials_test/";
    std::filesystem::create_directories(directory_);
    MakeAuthority("ca");
    MakeAuthority("other");
    MakeCertificate("worker", "ca", "IP:127.0.0.1,DNS:localhost");
    MakeCertificate("named", "ca", "DNS:baton-worker");
    MakeCertificate("foreign", "other", "IP:127.0.0.1");
  }

  static void Run(const std::string& command) {
    ASSERT_EQ(std::system(absl::StrCat("cd ", directory_, " && ", command, " 2>/dev/null").c_str()),
              0)
        << command;
  }
  static void MakeAuthority(const std::string& name) {
    Run(absl::Substitute(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=$0 "
        "-keyout $0.key -out $0.pem",
        name));
  }
  static void MakeCertificate(const std::string& name, const std::string& authority,
                              const std::string& names) {
    Run(absl::Substitute(
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$0 -keyout "
        "$0.key "
        "-out $0.csr && echo subjectAltName=$2 > $0.ext && openssl x509 -req -in $0.csr -days 2 "
        "-CA $1.pem -CAkey $1.key -CAcreateserial -extfile $0.ext -out $0.pem",
        name, authority, names));
  }

  static TlsFlags Tls(const std::string& name, const std::string& authority) {
    TlsFlags tls;
    tls.cert_file = directory_ + name + ".pem";
    tls.key_file = directory_ + name + ".key";
    tls.ca_file = directory_ + authority + ".pem";
    return tls;
  }

  void Serve(const TlsFlags& tls) {
    ServerFlags flags;
    flags.listen = "127.0.0.1:0";
    flags.tls = tls;
    auto server = ServerProcess::Create({.program = "test", .flags = flags}, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->Serve({&service_}).ok());
  }

  absl::Status Call(const TlsFlags& tls) { return Call(server_->listen_address(), tls); }
  static absl::Status Call(const std::string& address, const TlsFlags& tls) {
    const auto credentials = Credentials::Create(tls);
    if (!credentials.ok()) return credentials.status();
    const auto channel = MakeChannel(address, *credentials, ChannelPurpose::kControl);
    if (!channel.ok()) return channel.status();
    const auto stub = v1::GenerationService::NewStub(*channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::TokenizeResponse response;
    return FromGrpcStatus(stub->Tokenize(&context, v1::TokenizeRequest(), &response));
  }

  static std::string directory_;
  Metrics metrics_{"router"};
  TestService service_;
  std::unique_ptr<ServerProcess> server_;
};
std::string CredentialsTest::directory_;

TEST_F(CredentialsTest, BothSidesShowACertificateOfTheAuthority) {
  Serve(Tls("worker", "ca"));
  EXPECT_TRUE(Call(Tls("worker", "ca")).ok()) << Call(Tls("worker", "ca"));
  EXPECT_TRUE(Call(Tls("named", "ca")).ok()) << "a client's name is not compared";
  EXPECT_EQ(Call(TlsFlags()).code(), absl::StatusCode::kUnavailable) << "plain text";
  EXPECT_EQ(Call(Tls("foreign", "ca")).code(), absl::StatusCode::kUnavailable)
      << "client signed by another";
  EXPECT_EQ(Call(Tls("worker", "other")).code(), absl::StatusCode::kUnavailable)
      << "server signed by another";
}

TEST_F(CredentialsTest, TheServersNameMustMatch) {
  Serve(Tls("named", "ca"));
  EXPECT_EQ(Call(Tls("worker", "ca")).code(), absl::StatusCode::kUnavailable);
  TlsFlags tls = Tls("worker", "ca");
  tls.server_name = "baton-worker";
  EXPECT_TRUE(Call(tls).ok()) << Call(tls);
  tls.server_name = "another";
  EXPECT_EQ(Call(tls).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CredentialsTest, FilesThatDoNotBelongTogetherAreNamed) {
  const auto message = [](const TlsFlags& tls) {
    return std::string(Credentials::Create(tls).status().message());
  };
  TlsFlags tls = Tls("worker", "ca");
  tls.key_file = directory_ + "named.key";
  EXPECT_THAT(message(tls), HasSubstr("is not the key of --tls-cert"));
  tls = Tls("worker", "ca");
  tls.ca_file = tls.key_file;
  EXPECT_THAT(message(tls), HasSubstr("--tls-ca"));
  tls = Tls("worker", "ca");
  tls.key_file = tls.cert_file;
  EXPECT_THAT(message(tls), HasSubstr("holds no key"));
  tls = Tls("worker", "ca");
  tls.insecure = true;
  EXPECT_THAT(message(tls), HasSubstr("--insecure contradicts"));
}

TEST_F(CredentialsTest, AnExpiredCertificateIsNamed) {
  Run("openssl x509 -req -in worker.csr -days -1 -CA ca.pem -CAkey ca.key -CAcreateserial -out "
      "old.pem && "
      "cp worker.key old.key");
  EXPECT_THAT(std::string(Credentials::Create(Tls("old", "ca")).status().message()),
              HasSubstr("has expired"));
}

TEST_F(CredentialsTest, RenewedFilesAreTakenWithoutARestart) {
  Run("mkdir -p live && cp worker.pem live/live.pem && cp worker.key live/live.key && cp ca.pem "
      "live/ca.pem");
  TlsFlags live;
  live.cert_file = directory_ + "live/live.pem";
  live.key_file = directory_ + "live/live.key";
  live.ca_file = directory_ + "live/ca.pem";
  const auto credentials = Credentials::Create(live, absl::Seconds(1));
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials->ForServer(), &port);
  builder.RegisterService(&service_);
  const auto server = builder.BuildAndStart();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  EXPECT_TRUE(Call(address, Tls("worker", "ca")).ok());
  EXPECT_FALSE(Call(address, Tls("foreign", "other")).ok());

  Run("cp foreign.pem live/live.pem && cp foreign.key live/live.key && cp other.pem live/ca.pem");
  absl::Status status = absl::UnknownError("not called");
  for (int i = 0; i < 100 && !status.ok(); ++i) {
    status = Call(address, Tls("foreign", "other"));
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Credentials, PlainTextStaysOnLoopback) {
  const Credentials loopback = Credentials::Loopback();
  EXPECT_TRUE(MakeChannel("127.0.0.1:1", loopback, ChannelPurpose::kBulk).ok());
  EXPECT_EQ(MakeChannel("10.0.0.1:1", loopback, ChannelPurpose::kBulk).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(MakeChannel("dns:///prefill:50051", loopback, ChannelPurpose::kControl).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(MakeChannel("127.0.0.1:0", loopback, ChannelPurpose::kControl).ok());
  TlsFlags insecure;
  insecure.insecure = true;
  EXPECT_TRUE(
      MakeChannel("10.0.0.1:1", *Credentials::Create(insecure), ChannelPurpose::kBulk).ok());
}

}  // namespace
}  // namespace baton
