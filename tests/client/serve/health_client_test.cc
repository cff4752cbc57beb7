#include "client/serve/health_client.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using grpc::health::v1::HealthCheckResponse;

// Serves "ready", not "starting", knows no other, and never answers about "silent".
class HealthService final : public grpc::health::v1::Health::Service {
 public:
  grpc::Status Check(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     HealthCheckResponse* response) override {
    if (request->service() == "silent") {
      while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
      return grpc::Status::CANCELLED;
    }
    if (request->service() != "ready" && request->service() != "starting") {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service");
    }
    response->set_status(request->service() == "ready" ? HealthCheckResponse::SERVING
                                                       : HealthCheckResponse::NOT_SERVING);
    return grpc::Status::OK;
  }
};

class HealthClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  HealthService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(HealthClientTest, OnlyServingIsOk) {
  EXPECT_TRUE(CheckHealth(address_, "ready", absl::Seconds(30)).ok());
  EXPECT_EQ(CheckHealth(address_, "starting", absl::Seconds(30)),
            absl::UnavailableError(address_ + ": starting is not serving"));
  EXPECT_EQ(CheckHealth(address_, "other", absl::Seconds(30)).code(), absl::StatusCode::kNotFound);
}

TEST_F(HealthClientTest, AServerThatDoesNotAnswerIsNotWaitedForLongerThanAsked) {
  EXPECT_EQ(CheckHealth(address_, "silent", absl::Milliseconds(100)).code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(HealthClientTest, AServerThatIsGoneIsUnavailable) {
  server_->Shutdown();
  server_.reset();
  EXPECT_EQ(CheckHealth(address_, "ready", absl::Seconds(30)).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton
