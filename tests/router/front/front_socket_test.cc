#include "router/front/front_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/server.h"
#include "gtest/gtest.h"

#include "baton/v1/generation.grpc.pb.h"
#include "common/access/access_table.h"
#include "router/front/client_identity.h"
#include "tests/support/certificates.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kListModels[] = "/baton.v1.GenerationService/ListModels";
constexpr char kTokenize[] = "/baton.v1.GenerationService/Tokenize";

class FrontSocketTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }

  // Serves a service without methods, at the socket that `user` may use.
  void Serve(uid_t user) {
    auto socket = FrontSocket::Listen({.path = path_, .user = user});
    ASSERT_TRUE(socket.ok()) << socket.status();
    grpc::ServerBuilder builder;
    (*socket)->AddTo(builder, metrics_, trust_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    socket_ = *std::move(socket);
    socket_->Start();
  }
  std::shared_ptr<grpc::Channel> Connect() const {
    return grpc::CreateChannel("unix:" + path_, grpc::InsecureChannelCredentials());
  }
  // What a call with that header ends with.
  grpc::Status Call(const std::string& header = "", bool tokenize = false) const {
    grpc::ClientContext context;
    if (!header.empty()) context.AddMetadata(kClientCertificateHeader, header);
    context.AddMetadata(kClientAddressHeader, "192.0.2.7");
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto stub = v1::GenerationService::NewStub(Connect());
    v1::ListModelsResponse models;
    v1::TokenizeResponse tokens;
    return tokenize ? stub->Tokenize(&context, v1::TokenizeRequest(), &tokens)
                    : stub->ListModels(&context, v1::ListModelsRequest(), &models);
  }
  // The header of a client with that role.
  static std::string Header(const std::string& path) {
    static const TestAuthority* const kAuthority = new TestAuthority("clients");
    const std::string pem = kAuthority->IssueRole(path).pem;
    // Between its first line and its last a PEM file is DER in base64.
    std::vector<std::string> lines = absl::StrSplit(pem, '\n', absl::SkipEmpty());
    return absl::StrJoin(lines.begin() + 1, lines.end() - 1, "");
  }
  static std::string Refusal(const std::string& path) {
    return std::string(FrontSocket::Listen({.path = path, .user = getuid()}).status().message());
  }

  Metrics metrics_{"router"};
  std::shared_ptr<PeerTrust> trust_;
  const std::string path_ = ::testing::TempDir() + "front_socket_test.sock";
  v1::GenerationService::Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<FrontSocket> socket_;  // ends before the server
};

TEST_F(FrontSocketTest, ServesTheFrontsUser) {
  Serve(getuid());
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNIMPLEMENTED) << "the service's own answer";
  EXPECT_EQ(Call("no certificate").error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(FrontSocketTest, TheAccessTableJudgesWhoIsBehindTheFront) {
  Serve(getuid());
  const auto passes = [](const grpc::Status& status) {
    const bool passed = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
    EXPECT_TRUE(passed || status.error_code() == grpc::StatusCode::PERMISSION_DENIED)
        << status.error_message();
    return passed;
  };
  for (const Role role : kAllRoles) {
    const std::string header = Header(absl::StrCat(RoleName(role), "/a"));
    const Peer peer{.role = role};
    EXPECT_EQ(passes(Call(header)), CheckAccess(peer, kListModels).ok()) << RoleName(role);
    EXPECT_EQ(passes(Call(header, /*tokenize=*/true)), CheckAccess(peer, kTokenize).ok())
        << RoleName(role);
  }
  EXPECT_TRUE(passes(Call("", /*tokenize=*/true))) << "who has no certificate is a client";
  for (const AccessRule& rule : AccessTable()) {
    const absl::Status status = RawCall(Connect(), std::string(rule.method), {"\xff\xff"}).status;
    EXPECT_EQ(!absl::IsPermissionDenied(status), rule.callers.Has(Role::kClient))
        << rule.method << " " << status;
  }
}

TEST_F(FrontSocketTest, AClientOfAnotherTrustDomainIsRefused) {
  trust_ = std::make_shared<PeerTrust>();
  Serve(getuid());
  for (const auto& [own, code] : {std::pair("test", grpc::StatusCode::UNIMPLEMENTED),
                                  std::pair("other", grpc::StatusCode::PERMISSION_DENIED)}) {
    trust_->SetTrustDomain(own);
    EXPECT_EQ(Call(Header("client/a")).error_code(), code) << own;
    EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNIMPLEMENTED) << "who shows none has a key";
  }
}

TEST_F(FrontSocketTest, ARefusalIsCountedAndAudited) {
  Serve(getuid());
  testing::internal::CaptureStderr();
  Call(Header("prefill/mallory"));
  Call("no certificate");
  RawCall(Connect(), "/baton.internal.v1.KvTransferService/Push", {});
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(absl::StrCat("audit: refused method='", kListModels,
                                          "' peer='spiffe://test/baton/prefill/mallory' "
                                          "address='192.0.2.7' reason='role'")));
  EXPECT_THAT(log, HasSubstr("reason='no_identity'"));
  for (const char* caller : {"prefill", "unknown", "client"}) {
    EXPECT_THAT(metrics_.Scrape(), HasSubstr(absl::StrCat("caller=\"", caller, "\"")));
  }
}

TEST_F(FrontSocketTest, ClosesAndAuditsTheConnectionsOfAnotherUser) {
  Serve(getuid() + 1);
  testing::internal::CaptureStderr();
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  char byte;
  EXPECT_EQ(read(connection, &byte, 1), 0) << "closed without gRPC's first bytes";
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat("audit: refused method='connection' peer='user ", getuid(),
                                     "' address='unix:", path_)));
  close(connection);
}

TEST_F(FrontSocketTest, TakesThePlaceOfASocketThatNobodyListensAt) {
  Serve(getuid());
  EXPECT_THAT(Refusal(path_), HasSubstr("another process listens there"));
  const int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_)) << "removed with its owner";
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(dead);
  Serve(getuid());
  EXPECT_EQ(Call().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(FrontSocketTest, APathThatCannotBeIsNamed) {
  std::ofstream(path_) << "a file";
  EXPECT_THAT(Refusal(path_), AllOf(HasSubstr("--front-socket " + path_), HasSubstr("no socket")));
  EXPECT_THAT(Refusal("/nonexistent/front.sock"), HasSubstr("No such file"));
  EXPECT_THAT(Refusal(std::string(200, 'x')), HasSubstr("at most 107 bytes"));
  EXPECT_THAT(Refusal(""), HasSubstr("--front-socket"));
}

}  // namespace
}  // namespace baton
