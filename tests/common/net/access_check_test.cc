#include "common/net/access_check.h"

#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"

#include "common/access/access_table.h"
#include "common/net/server.h"
#include "tests/common/net/test_service.h"
#include "tests/common/net/test_sockets.h"
#include "tests/support/certificates.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

const TestAuthority& Mesh() {
  static const TestAuthority* const kAuthority = new TestAuthority("mesh");
  return *kAuthority;
}
const TestAuthority& Clients() {
  static const TestAuthority* const kAuthority = new TestAuthority("clients");
  return *kAuthority;
}
const TestAuthority& Stranger() {
  static const TestAuthority* const kAuthority = new TestAuthority("mesh");  // by the same name
  return *kAuthority;
}

// A server with the certificate of a router. It serves health and reflection, and answers every
// other call that is let in with UNIMPLEMENTED.
class AccessCheckTest : public ::testing::Test {
 protected:
  void Serve(bool client_authority, const std::vector<grpc::Service*>& services = {},
             bool certificate_optional = false,
             absl::Duration handshake_timeout = kHandshakeTimeout) {
    const TestCertificate own = Mesh().IssueRole("router/a");
    ServerFlags flags;
    flags.listen = "127.0.0.1:0";
    flags.tls.cert_file = WriteTestFile("router.pem", own.pem);
    flags.tls.key_file = WriteTestFile("router.key", own.key_pem);
    flags.tls.ca_file = WriteTestFile("mesh.pem", Mesh().pem());
    if (client_authority) flags.tls.client_ca_file = WriteTestFile("clients.pem", Clients().pem());
    flags.tls.certificate_optional = certificate_optional;
    flags.tls.crl_file = WriteTestFile(
        "revoked.pem", Mesh().Revoke({}) + (client_authority ? Clients().Revoke({}) : ""));
    auto server = ServerProcess::Create(
        {.program = "test", .flags = flags, .handshake_timeout = handshake_timeout}, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->Serve(services).ok());
  }

  std::shared_ptr<grpc::Channel> Connect(const TestCertificate& certificate) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    return grpc::CreateCustomChannel(
        server_->listen_address(),
        grpc::SslCredentials({Mesh().pem(), certificate.key_pem, certificate.pem}), arguments);
  }

  // The methods that the holder of the certificate may call: those that are answered otherwise
  // than by a refusal. What is sent is no message, so that no call lasts.
  std::set<std::string> Callable(const TestCertificate& certificate) {
    const auto channel = Connect(certificate);
    std::set<std::string> methods;
    for (const AccessRule& rule : AccessTable()) {
      const std::string method(rule.method);
      const absl::Status status = RawCall(channel, method, {"\xff\xff"}).status;
      if (!absl::IsPermissionDenied(status) && !absl::IsUnauthenticated(status) &&
          !absl::IsUnavailable(status)) {
        methods.insert(method);
      }
    }
    return methods;
  }

  static std::set<std::string> Listed(Role role) {
    std::set<std::string> methods;
    for (const AccessRule& rule : AccessTable()) {
      if (rule.callers.Has(role)) methods.insert(std::string(rule.method));
    }
    return methods;
  }

  Metrics metrics_{"router"};
  std::unique_ptr<ServerProcess> server_;
};

// Certificates that nobody may use, by what is wrong with them. `path` is the end of their id.
std::map<std::string, TestCertificate> BadCertificates(const std::string& path) {
  const std::string names = absl::StrCat("URI:spiffe://test/baton/", path);
  const absl::Time now = absl::Now();
  return {
      {"no certificate", {}},
      {"wrong authority", Stranger().IssueRole(path)},
      {"expired", Mesh().Issue({.names = names, .until = now - absl::Seconds(1)})},
      {"not yet valid", Mesh().Issue({.names = names, .from = now + absl::Minutes(5)})},
      {"wrong key usage", Mesh().Issue({.names = names, .key_usage = "serverAuth"})},
      {"no id", Mesh().Issue({.common_name = path})},
      {"two ids",
       Mesh().Issue({.names = absl::StrCat(names, ",URI:spiffe://test/baton/client/b")})},
      {"another trust domain",
       Mesh().Issue({.names = absl::StrCat("URI:spiffe://other/baton/", path)})},
      {"another's id", Mesh().Issue({.names = "URI:spiffe://test/other/router/a"})},
      {"unknown role", Mesh().Issue({.names = "URI:spiffe://test/baton/root/a"})},
  };
}

TEST_F(AccessCheckTest, OnlyTheListedPairsOfCertificateAndMethodPass) {
  for (const bool client_authority : {false, true}) {
    Serve(client_authority);
    for (const Role role : kAllRoles) {
      const std::string path = absl::StrCat(RoleName(role), "/a");
      SCOPED_TRACE(absl::StrCat(path, client_authority ? ", with a client authority" : ""));
      EXPECT_EQ(Callable(Mesh().IssueRole(path)), Listed(role));
      for (const auto& [what, certificate] : BadCertificates(path)) {
        EXPECT_EQ(Callable(certificate), std::set<std::string>()) << what;
      }
    }
  }
}

TEST_F(AccessCheckTest, WhereCertificatesAreOptionalWhoHasNoneIsAClientAndABadOneHelpsNobody) {
  for (const bool client_authority : {false, true}) {
    SCOPED_TRACE(client_authority ? "with a client authority" : "");
    Serve(client_authority, {}, /*certificate_optional=*/true);
    EXPECT_EQ(Callable(Mesh().IssueRole("prefill/a")), Listed(Role::kPrefill));
    for (const auto& [what, certificate] : BadCertificates("prefill/a")) {
      const bool none = what == "no certificate";
      EXPECT_EQ(Callable(certificate), none ? Listed(Role::kClient) : std::set<std::string>())
          << what;
    }
  }
}

TEST_F(AccessCheckTest, TheClientAuthorityVouchesForClientsOnly) {
  Serve(true);
  for (const Role role : kAllRoles) {
    const std::set<std::string> expected =
        role == Role::kClient ? Listed(role) : std::set<std::string>();
    EXPECT_EQ(Callable(Clients().IssueRole(absl::StrCat(RoleName(role), "/a"))), expected)
        << RoleName(role);
  }
  EXPECT_EQ(Callable(Clients().Issue({.common_name = "alice"})), Listed(Role::kClient));
  EXPECT_EQ(Callable(Clients().Issue({.names = "URI:https://alice"})), Listed(Role::kClient));
  EXPECT_EQ(Callable(Clients().Issue({.names = "URI:spiffe://test/other"})),
            std::set<std::string>());
  EXPECT_EQ(Callable(Clients().Issue({.names = "URI:spiffe://other/baton/client/a"})),
            std::set<std::string>());
  EXPECT_EQ(Callable(Clients().Issue({.key_usage = "serverAuth"})), std::set<std::string>());
  EXPECT_EQ(Callable(Clients().Issue({.until = absl::Now() - absl::Seconds(1)})),
            std::set<std::string>());
}

TEST_F(AccessCheckTest, WithoutAClientAuthorityItsCertificatesAreWorthNothing) {
  Serve(false);
  EXPECT_EQ(Callable(Clients().IssueRole("client/a")), std::set<std::string>());
}

TEST_F(AccessCheckTest, ARefusalTellsTheCallerAndTheAuditLogAndIsCounted) {
  Serve(false);
  const auto channel = Connect(Mesh().IssueRole("client/mallory"));
  const std::string push = "/baton.internal.v1.KvTransferService/Push";
  ::testing::internal::CaptureStderr();
  const absl::Status refused = RawCall(channel, push, {"secret"}).status;
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("the role client may not call ", push, ", only prefill may")));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("audit: refused method='", push,
                                          "' peer='spiffe://test/baton/client/mallory' "
                                          "address='' reason='role'")));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("secret")));

  const absl::Status unknown = RawCall(channel, "/made.Up/Method", {}).status;
  EXPECT_EQ(unknown.code(), absl::StatusCode::kPermissionDenied);
  const absl::Status nobody =
      RawCall(Connect(Mesh().Issue({.common_name = "old"})), push, {}).status;
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("spiffe://<trust domain>/baton/<role>"));

  std::set<std::string> counted;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(metrics_.Scrape(), '\n'))) {
    if (!absl::StartsWith(line, "baton_refused_calls_total{")) continue;
    for (const char* reason : {"role", "unknown_method", "no_identity"}) {
      if (!absl::StrContains(line, absl::StrCat("reason=\"", reason, "\""))) continue;
      EXPECT_TRUE(absl::EndsWith(line, "} 1")) << line;
      counted.insert(reason);
    }
    EXPECT_FALSE(absl::StrContains(line, "made.Up")) << line;
  }
  EXPECT_EQ(counted.size(), 3u) << metrics_.Scrape();
}

TEST_F(AccessCheckTest, ARevokedCertificateIsRefusedOnTheConnectionThatStandsToo) {
  Serve(true);
  const std::string watch = "/baton.internal.v1.WorkerService/Watch";
  const std::string list_models = "/baton.v1.GenerationService/ListModels";
  const TestCertificate router = Mesh().IssueRole("router/b"), other = Mesh().IssueRole("router/c");
  const TestCertificate client = Clients().IssueRole("client/b");
  const auto router_channel = Connect(router), other_channel = Connect(other),
             client_channel = Connect(client);
  const auto code = [](const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
    return RawCall(channel, method, {""}).status.code();
  };
  EXPECT_EQ(code(router_channel, watch), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(client_channel, list_models), absl::StatusCode::kUnimplemented);

  WriteTestFile("revoked.pem", absl::StrCat(Mesh().Revoke({.revoked = {other, router}}),
                                            Clients().Revoke({.revoked = {client}})));
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (code(router_channel, watch) != absl::StatusCode::kUnauthenticated) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(5));
  }
  const absl::Status refused = RawCall(router_channel, watch, {""}).status;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("was revoked"));
  EXPECT_EQ(code(client_channel, list_models), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code(other_channel, watch), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Callable(other), std::set<std::string>()) << "on a new connection";
  EXPECT_EQ(Callable(Mesh().IssueRole("router/b")), Listed(Role::kRouter)) << "a new certificate";
  EXPECT_THAT(metrics_.Scrape(), HasSubstr("reason=\"revoked\""));
}

TEST_F(AccessCheckTest, AHandshakeThatDoesNotEndIsClosed) {
  EXPECT_LE(ServerProcess::Options().handshake_timeout, absl::Seconds(5));
  Serve(false, {}, false, absl::Milliseconds(50));
  for (const absl::string_view said : {"", kBeginOfHandshake}) {
    TestSocket client;
    ASSERT_TRUE(client.Connect(server_->listen_address()) && client.Send(said));
    EXPECT_TRUE(client.IsClosed()) << "after " << said.size() << " bytes";
  }
}

// Answers ListModels with the caller's name.
class NamingService final : public v1::GenerationService::Service {
 public:
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest*,
                          v1::ListModelsResponse*) override {
    const std::optional<Peer> peer = PeerOf(*context);
    return {grpc::StatusCode::ABORTED,
            peer.has_value()
                ? absl::StrCat(RoleName(peer->role), " ", peer->trust_domain, " ", peer->name)
                : "nobody"};
  }
};

TEST_F(AccessCheckTest, AHandlerLearnsWhoCalls) {
  NamingService service;
  Serve(true, {&service});
  const auto caller = [&](const std::shared_ptr<grpc::Channel>& channel) {
    return std::string(
        RawCall(channel, "/baton.v1.GenerationService/ListModels", {""}).status.message());
  };
  EXPECT_EQ(caller(Connect(Mesh().IssueRole("operator/b/c"))), "operator test b/c");
  EXPECT_EQ(caller(Connect(Clients().IssueRole("client/d"))), "client test d");
  EXPECT_EQ(caller(Connect(Clients().Issue({.common_name = "alice"}))), "client  CN=alice");
  server_.reset();

  ServerFlags plain;
  plain.listen = "127.0.0.1:0";
  ::testing::internal::CaptureStderr();
  server_ = *ServerProcess::Create({.program = "test", .flags = plain}, metrics_);
  ASSERT_TRUE(server_->Serve({&service}).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("callers have no roles"));
  EXPECT_EQ(
      caller(grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials())),
      "nobody");
}

}  // namespace
}  // namespace baton
