#include "client/doctor/reach_check.h"

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"

#include "tests/client/doctor/find_finding.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class PlayedHealth final : public grpc::health::v1::Health::Service {
 public:
  explicit PlayedHealth(bool ready) : ready_(ready) {}
  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest*,
                     grpc::health::v1::HealthCheckResponse* response) override {
    response->set_status(ready_ ? grpc::health::v1::HealthCheckResponse::SERVING
                                : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
    return grpc::Status::OK;
  }

 private:
  const bool ready_;
};

Findings OfServer(grpc::Service* service) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  grpc::health::v1::Health::Service nothing;
  builder.RegisterService(service == nullptr ? &nothing : service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  return ReachFindings(GatherReachFacts(
      {.address = absl::StrCat("127.0.0.1:", port), .whose = "router"}, Credentials::Loopback()));
}

TEST(ReachFindings, OfAReadyServerAreOk) {
  PlayedHealth health(true);
  const Findings findings = OfServer(&health);
  ASSERT_EQ(findings.size(), 3u);
  for (const Finding& finding : findings) EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.found;
  EXPECT_EQ(FindFinding(findings, "name.resolves").found, "1 address: 127.0.0.1");
}

TEST(ReachFindings, TellAServerThatIsNotReadyFromAnotherProgram) {
  PlayedHealth health(false);
  EXPECT_EQ(FindFinding(OfServer(&health), "server.health").verdict, Verdict::kWarning);
  const Finding other = FindFinding(OfServer(nullptr), "server.health");
  EXPECT_EQ(other.verdict, Verdict::kFailed);
  EXPECT_THAT(other.remedy, HasSubstr("another program"));
}

TEST(ReachFindings, OfAPortWhereNobodyListensEndAtTheConnection) {
  const Findings findings = ReachFindings(GatherReachFacts(
      {.address = "127.0.0.1:1", .whose = "decode worker"}, Credentials::Loopback()));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].check, "server.reachable");
  EXPECT_EQ(findings[1].verdict, Verdict::kFailed);
  EXPECT_THAT(findings[1].found, HasSubstr("127.0.0.1: Connection refused"));
}

TEST(ReachFindings, OfAnUnknownNameEndThere) {
  const Findings findings = ReachFindings(
      {.target = {.address = "nowhere:1", .whose = "router"}, .name_error = "Name not known"});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kFailed);
  EXPECT_EQ(findings[0].found, "Name not known");
  EXPECT_EQ(
      ReachFindings(GatherReachFacts({.address = "nonsense"}, Credentials::Loopback())).size(), 1u);
}

TEST(ReachFindings, OfANameWithAnAddressThatDoesNotConnectSayWhich) {
  const Findings findings = ReachFindings({.resolved = {"::1", "127.0.0.1"},
                                           .connected = 1,
                                           .connect_error = "::1: Connection refused"});
  EXPECT_EQ(findings[1].verdict, Verdict::kOk);
  EXPECT_EQ(findings[1].found, "connected to 1 of 2 addresses; ::1: Connection refused");
}

}  // namespace
}  // namespace baton
