#include "common/net/server.h"

#include <httplib.h>
#include <sys/stat.h>

#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "gtest/gtest.h"

#include "common/base/address.h"
#include "common/rpc/deadline.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "tests/common/net/test_calls.h"
#include "tests/common/net/test_service.h"
#include "tests/common/net/test_sockets.h"
#include "tests/support/certificates.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerFlags flags;
    flags.listen = flags.health_listen = flags.metrics_listen = "127.0.0.1:0";
    flags.shutdown_timeout = absl::Seconds(2);
    auto server = ServerProcess::Create(
        {.program = "test", .flags = flags, .health = {.services = {"baton.v1.GenerationService"}}},
        metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  Metrics metrics_{"router"};
  TestService service_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(ServerTest, ProbesAnswerWhileTheModelLoads) {
  EXPECT_EQ(CheckHealth(server_->health_address(), "startup"), "NOT_SERVING");
  EXPECT_EQ(CheckHealth(server_->health_address(), "liveness"), "SERVING");
  EXPECT_EQ(CheckHealth(server_->health_address(), "readiness"), "NOT_SERVING");
  ASSERT_TRUE(server_->Serve({&service_}).ok());
  server_->health().SetState(ServerState::kReady);
  for (const std::string& address : {server_->health_address(), server_->listen_address()}) {
    for (const char* name :
         {"startup", "liveness", "readiness", "", "baton.v1.GenerationService"}) {
      EXPECT_EQ(CheckHealth(address, name), "SERVING") << name;
    }
    EXPECT_THAT(CheckHealth(address, "nonsense"), HasSubstr("NOT_FOUND"));
  }
}

// A Watch stream of the health port.
struct HealthWatch {
  HealthWatch(grpc::health::v1::Health::Stub& stub, const std::string& service) {
    SetDeadline(context);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    reader = stub.Watch(&context, request);
  }
  // The next status, or the end.
  std::string Next() {
    HealthCheckResponse response;
    return reader->Read(&response) ? HealthCheckResponse::ServingStatus_Name(response.status())
                                   : FromGrpcStatus(reader->Finish()).ToString();
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
};

TEST_F(ServerTest, AHealthWatchTellsEveryChange) {
  const auto stub = grpc::health::v1::Health::NewStub(Connect(server_->health_address()));
  HealthWatch watch(*stub, "readiness"), unknown(*stub, "nonsense");
  EXPECT_EQ(watch.Next(), "NOT_SERVING");
  EXPECT_EQ(unknown.Next(), "SERVICE_UNKNOWN");
  server_->health().SetState(ServerState::kReady);
  EXPECT_EQ(watch.Next(), "SERVING");
  server_->health().SetState(ServerState::kDraining);
  EXPECT_EQ(watch.Next(), "NOT_SERVING");
}

TEST_F(ServerTest, OneHealthWatchTooManyIsRefused) {
  const auto stub = grpc::health::v1::Health::NewStub(Connect(server_->health_address()));
  std::list<HealthWatch> watches;
  for (int i = 0; i < kMaxWatchers; ++i) {
    EXPECT_EQ(watches.emplace_back(*stub, "liveness").Next(), "SERVING");
  }
  EXPECT_THAT(HealthWatch(*stub, "liveness").Next(), HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_EQ(CheckHealth(server_->health_address(), "liveness"), "SERVING");
}

TEST_F(ServerTest, BeyondLoopbackReflectionMustBeAskedFor) {
  for (const bool asked : {false, true}) {
    ServerFlags flags;
    flags.listen = "0.0.0.0:0";
    flags.tls.insecure = true;
    flags.reflection = asked;
    server_.reset();
    auto server = ServerProcess::Create({.program = "test", .flags = flags}, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->Serve({&service_}).ok());
    const uint16_t port = ParseHostPort(server_->listen_address())->port;
    for (const char* version : {"v1", "v1alpha"}) {
      const absl::Status status = RawCall(Connect(absl::StrCat("127.0.0.1:", port)),
                                          absl::StrCat("/grpc.reflection.", version,
                                                       ".ServerReflection/ServerReflectionInfo"),
                                          {""})
                                      .status;
      EXPECT_EQ(absl::IsUnimplemented(status), !asked) << status;
    }
  }
}

TEST_F(ServerTest, AKeyThatOthersMayReadIsALineAtTheStart) {
  const TestAuthority authority("mesh");
  const TestCertificate own = authority.IssueRole("decode/a");
  ServerFlags flags;
  flags.listen = "127.0.0.1:0";
  flags.tls.cert_file = WriteTestFile("mode.pem", own.pem);
  flags.tls.key_file = WriteTestFile("mode.key", own.key_pem);
  flags.tls.ca_file = WriteTestFile("mode-ca.pem", authority.pem());
  const std::string line = absl::StrCat("--tls-key ", flags.tls.key_file,
                                        ": mode 0644: everybody may read it; chmod 600");
  for (const mode_t mode : {0640, 0644}) {
    chmod(flags.tls.key_file.c_str(), mode);
    server_.reset();  // a process has one
    Metrics metrics("decode");
    ::testing::internal::CaptureStderr();
    const auto server = ServerProcess::Create({.program = "test", .flags = flags}, metrics);
    const std::string log = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ(absl::StrContains(log, line), mode == 0644) << log;
    EXPECT_EQ(std::vector<std::string>(absl::StrSplit(log, "may read it")).size(),
              mode == 0644 ? 2u : 1u);
  }
}

TEST_F(ServerTest, DetailsArriveThroughARealCall) {
  ASSERT_TRUE(server_->Serve({&service_}).ok());
  const auto stub = v1::GenerationService::NewStub(Connect(server_->listen_address()));
  grpc::ClientContext context;
  SetDeadline(context);
  v1::DetokenizeResponse response;
  const absl::Status status = FromGrpcStatus(stub->Detokenize(&context, {}, &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(status), "TEST_REASON");
  EXPECT_EQ(GetErrorInfo(status)->worker, "d-1");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(1500));
  ASSERT_EQ(FieldViolations(status).size(), 2u);
  EXPECT_EQ(FieldViolations(status)[1].field, "model");
}

TEST_F(ServerTest, WhoCallsWhatIsNotServedIsToldWhereHeIs) {
  ASSERT_TRUE(server_->Serve({&service_}).ok());
  const std::string method = "/baton.internal.v1.PrefillService/Prefill";
  for (const std::string& address : {server_->listen_address(), server_->health_address()}) {
    const absl::Status status = RawCall(Connect(address), method, {""}).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(status.message(), "this is test, which has no method " + method);
  }
}

TEST_F(ServerTest, MetricsAreServedAsText) {
  const auto address = ParseHostPort(server_->metrics_address());
  ASSERT_TRUE(address.ok());
  httplib::Client client(address->host, address->port);
  const auto found = client.Get("/metrics");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, 200);
  EXPECT_THAT(found->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(found->body, HasSubstr("# TYPE baton_build_info gauge"));
  EXPECT_EQ(client.Get("/other")->status, 404);
}

using ReflectionRequest = grpc::reflection::v1::ServerReflectionRequest;
using ReflectionResponse = grpc::reflection::v1::ServerReflectionResponse;

// The answer of reflection. Both versions have the same messages.
ReflectionResponse Reflect(const std::string& address, const char* version,
                           const ReflectionRequest& request) {
  const RawAnswer answer =
      RawCall(Connect(address),
              absl::StrCat("/grpc.reflection.", version, ".ServerReflection/ServerReflectionInfo"),
              {request.SerializeAsString()});
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  ReflectionResponse response;
  EXPECT_TRUE(answer.messages.size() == 1 && response.ParseFromString(answer.messages[0]));
  return response;
}

TEST_F(ServerTest, BothReflectionsListTheServices) {
  ASSERT_TRUE(server_->Serve({&service_}).ok());
  ReflectionRequest request;
  request.set_list_services("*");
  for (const std::string& address : {server_->listen_address(), server_->health_address()}) {
    std::vector<std::vector<std::string>> lists;
    for (const char* version : {"v1", "v1alpha"}) {
      std::vector<std::string>& names = lists.emplace_back();
      const auto listed = Reflect(address, version, request).list_services_response();
      for (const auto& service : listed.service()) names.push_back(service.name());
    }
    EXPECT_THAT(lists[0], ::testing::UnorderedElementsAreArray(lists[1]));
    EXPECT_THAT(lists[0], ::testing::IsSupersetOf(
                              {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"}));
    const bool public_port = address == server_->listen_address();
    EXPECT_EQ(std::count(lists[0].begin(), lists[0].end(), "baton.v1.GenerationService"),
              public_port ? 1 : 0);
  }
}

// The whole of the limits would take 90 s: tests/integration/test_vanished_clients.py.
TEST(ServerKeepalive, AClientThatAnswersNoPingIsDroppedAndAnIdleOneThatAnswersStays) {
  Metrics metrics{"router"};
  ServerFlags flags;
  flags.listen = "127.0.0.1:0";
  const auto server = ServerProcess::Create({.program = "test",
                                             .flags = flags,
                                             .client_keepalive_time = absl::Seconds(1),
                                             .client_keepalive_timeout = absl::Seconds(1)},
                                            metrics);
  ASSERT_TRUE(server.ok()) << server.status();
  TestService service;
  ASSERT_TRUE((*server)->Serve({&service}).ok());
  const std::string address = (*server)->listen_address();

  const auto idle = Connect(address, ChannelPurpose::kClient);
  ASSERT_TRUE(idle->WaitForConnected(DeadlineAfter(absl::Seconds(10))));
  bool left = true;
  std::thread watch([&] {  // also reads, which an idle channel does each 5 s only
    left = idle->WaitForStateChange(GRPC_CHANNEL_READY, DeadlineAfter(absl::Seconds(4)));
  });
  TestSocket vanished;
  ASSERT_TRUE(vanished.Connect(address));
  // The preface of HTTP/2 and empty settings.
  ASSERT_TRUE(vanished.Send(
      absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", std::string("\0\0\0\4\0\0\0\0\0", 9))));
  EXPECT_NE(vanished.ReadAll(), "");
  EXPECT_TRUE(vanished.IsClosed());
  watch.join();
  EXPECT_FALSE(left) << "the idle client was dropped too";
}

TEST_F(ServerTest, MessagesOverTheLimitAreRefused) {
  ASSERT_TRUE(server_->Serve({&service_}).ok());
  const auto stub = v1::GenerationService::NewStub(Connect(server_->listen_address()));
  const auto tokenize = [&](size_t bytes) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::TokenizeRequest request;
    request.set_text(std::string(bytes, 'x'));
    v1::TokenizeResponse response;
    return FromGrpcStatus(stub->Tokenize(&context, request, &response)).code();
  };
  EXPECT_EQ(tokenize(kMaxMessageBytes - 100), absl::StatusCode::kOk);
  EXPECT_EQ(tokenize(kMaxMessageBytes + 100), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(tokenize(1), absl::StatusCode::kOk) << "the connection goes on";
}

TEST_F(ServerTest, DrainingIsNotReadyAndEndsWhatRuns) {
  ASSERT_TRUE(server_->Serve({&service_}).ok());
  server_->health().SetState(ServerState::kReady);
  const auto stub = v1::GenerationService::NewStub(Connect(server_->listen_address()));
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = stub->Generate(&context, v1::GenerateRequest());
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));

  std::vector<std::string> order;
  const std::string health = server_->health_address();
  server_->RequestShutdown();
  EXPECT_EQ(server_->Run({.begin =
                              [&] {
                                order.push_back("begin");
                                EXPECT_EQ(CheckHealth(health, "readiness"), "NOT_SERVING");
                                EXPECT_EQ(CheckHealth(health, "liveness"), "SERVING");
                              },
                          .drained = [&] { return service_.running() == 0; },
                          .end_rest =
                              [&] {
                                order.push_back("end_rest");
                                service_.Stop();
                              }}),
            0);
  EXPECT_THAT(order, ::testing::ElementsAre("begin", "end_rest"));
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_message(), "stopped");
}

}  // namespace
}  // namespace baton
