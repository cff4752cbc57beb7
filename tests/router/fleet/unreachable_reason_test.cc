// Reasons of gRPC's own errors, as the router's channels meet them on real sockets.
#include "router/fleet/unreachable_reason.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/net/channel.h"
#include "common/rpc/status.h"
#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// A port that sends `answer` to whatever is received on a connection, and nothing more. With an
// empty answer it is silent.
class RawPort {
 public:
  explicit RawPort(std::string answer)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), answer_(std::move(answer)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 64), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~RawPort() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    for (const int connection : open_) close(connection);
    close(fd_);
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  void Serve() {
    for (int connection = 0; (connection = accept(fd_, nullptr, nullptr)) >= 0;) {
      char buffer[1024];
      if (!answer_.empty() && recv(connection, buffer, sizeof(buffer), 0) > 0) {
        send(connection, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      }
      if (!answer_.empty()) shutdown(connection, SHUT_WR);
      open_.push_back(connection);
    }
  }

  const int fd_;
  const std::string answer_;
  int port_ = 0;
  std::vector<int> open_;
  std::thread thread_;
};

class AnyService final : public internal::v1::WorkerService::Service {};

// The reason why a decode worker at the address does not answer.
UnreachableReason ReasonAt(const std::string& address, const Credentials& credentials) {
  const auto channel = MakeChannel(address, credentials, ChannelPurpose::kDecode);
  if (!channel.ok()) return ExplainNotAllowed(channel.status());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto watch =
      internal::v1::WorkerService::NewStub(*channel)->Watch(&context, internal::v1::WatchRequest());
  internal::v1::WatchResponse response;
  while (watch->Read(&response)) {
  }
  const grpc::Status status = watch->Finish();
  EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << address;
  UnreachableReason reason = ExplainUnreachable(FromGrpcStatus(status));
  // Shown with a test that fails.
  reason.text += absl::StrCat(" <- ", status.error_code(), " ", status.error_message());
  return reason;
}

// `name` is that of its files.
Credentials Tls(const TestAuthority& authority, const std::string& name, const std::string& role) {
  const TestCertificate own = authority.IssueRole(role + "/a");
  TlsFlags tls;
  tls.cert_file = WriteTestFile(name + ".pem", own.pem);
  tls.key_file = WriteTestFile(name + ".key", own.key_pem);
  tls.ca_file = WriteTestFile(name + ".ca", authority.pem());
  return *Credentials::Create(tls);
}

// A gRPC server with or without TLS, whose service implements no method.
class GrpcPort {
 public:
  explicit GrpcPort(const Credentials& credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials.ForServer(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  ~GrpcPort() { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  AnyService service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

void ExpectKind(UnreachableKind kind, const UnreachableReason& reason) {
  EXPECT_EQ(reason.kind, kind) << reason.text;
}

TEST(UnreachableReason, TellsAClosedPortASilentOneAndOneOfHttpApart) {
  const Credentials plain = Credentials::Loopback();
  ExpectKind(UnreachableKind::kRefused, ReasonAt("127.0.0.1:9", plain));
  const RawPort silent("");
  ExpectKind(UnreachableKind::kSilent, ReasonAt(silent.address(), plain));
  const RawPort http("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  ExpectKind(UnreachableKind::kNotGrpc, ReasonAt(http.address(), plain));
  const RawPort ssh("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
  ExpectKind(UnreachableKind::kNotGrpc, ReasonAt(ssh.address(), plain));
}

TEST(UnreachableReason, NamesASocketThatDoesNotExist) {
  ExpectKind(UnreachableKind::kNoSocket,
             ReasonAt("unix:" + testing::TempDir() + "none.sock", Credentials::Loopback()));
}

TEST(UnreachableReason, NamesAHostThatDnsDoesNotKnow) {
  TlsFlags insecure;
  insecure.insecure = true;
  const UnreachableReason reason =
      ReasonAt("no-such-host.invalid:7002", *Credentials::Create(insecure));
  // A machine without a network has no DNS that could know.
  EXPECT_TRUE(reason.kind == UnreachableKind::kNoSuchHost ||
              reason.kind == UnreachableKind::kDnsFails)
      << reason.text;
}

TEST(UnreachableReason, NamesTlsWhereOneSideHasItAndTheOtherHasNot) {
  const TestAuthority ours("ours"), other("other");
  const Credentials router = Tls(ours, "reason_router", "router");
  const GrpcPort plain(Credentials::Loopback());
  ExpectKind(UnreachableKind::kTls, ReasonAt(plain.address(), router));
  const GrpcPort secure(Tls(ours, "reason_decode", "decode"));
  const UnreachableReason reason = ReasonAt(secure.address(), Credentials::Loopback());
  // It depends on whether the server's alert is received before the end of the connection.
  EXPECT_TRUE(reason.kind == UnreachableKind::kClosed || reason.kind == UnreachableKind::kNotGrpc)
      << reason.text;
  EXPECT_THAT(reason.text, HasSubstr("give TLS to both sides or to none"));
  const GrpcPort foreign(Tls(other, "reason_foreign", "decode"));
  ExpectKind(UnreachableKind::kTls, ReasonAt(foreign.address(), router));
  const GrpcPort other_role(Tls(ours, "reason_prefill", "prefill"));
  const UnreachableReason role = ReasonAt(other_role.address(), router);
  ExpectKind(UnreachableKind::kTls, role);
  EXPECT_THAT(role.text, HasSubstr("(Custom verification check failed with error: "
                                   "PERMISSION_DENIED: the server has the role prefill"));
}

TEST(UnreachableReason, NamesAServerThatIsNoWorker) {
  const GrpcPort server(Credentials::Loopback());
  ExpectKind(UnreachableKind::kNotAWorker, ReasonAt(server.address(), Credentials::Loopback()));
}

TEST(UnreachableReason, ARouterThatIsRefusedKeepsTheWorkersWords) {
  const UnreachableReason reason = ExplainUnreachable(
      absl::ResourceExhaustedError("64 streams watch this worker; close one of them"));
  EXPECT_EQ(reason.kind, UnreachableKind::kRouterRefused);
  EXPECT_THAT(reason.text, HasSubstr("it refuses this router (64 streams watch this worker"));
}

TEST(UnreachableReason, WhatIsNotKnownKeepsItsWordsWithinBounds) {
  const std::string text = ExplainUnreachable(absl::InternalError(std::string(5000, 'x'))).text;
  EXPECT_THAT(text, HasSubstr("INTERNAL: xxx"));
  EXPECT_LT(text.size(), 300u);
}

}  // namespace
}  // namespace baton
