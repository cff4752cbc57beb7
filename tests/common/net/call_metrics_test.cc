#include "common/net/call_metrics.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"

#include "common/base/clock.h"
#include "common/net/channel.h"
#include "common/net/server.h"
#include "tests/common/net/test_service.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CallMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerFlags flags;
    flags.listen = "127.0.0.1:0";
    auto server = ServerProcess::Create({.program = "test", .flags = flags}, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->Serve({&service_}).ok());
    channel_ =
        *MakeChannel(server_->listen_address(), Credentials::Loopback(), ChannelPurpose::kDecode);
  }
  // A call's memory is given back a little after its client has heard of the end.
  void ExpectSoon(const std::string& sample) {
    for (const absl::Time end = SteadyNow() + absl::Seconds(10); SteadyNow() < end;) {
      if (absl::StrContains(metrics_.Scrape(), sample)) return;
      absl::SleepFor(absl::Milliseconds(2));
    }
    ADD_FAILURE() << "no " << sample << " in\n" << metrics_.Scrape();
  }
  static std::string Handled(const std::string& method, const std::string& code, int count) {
    return absl::StrCat("baton_grpc_server_handled_total{grpc_code=\"", code, "\",grpc_method=\"",
                        method, "\",grpc_service=\"baton.v1.GenerationService\",", kEnd, count,
                        "\n");
  }

  static constexpr char kEnd[] = R"(model_name="",role="router"} )";
  Metrics metrics_{"router"};
  TestService service_;
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(CallMetricsTest, CallsAreCountedByMethodAndCodeAndMeasured) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(RawCall(channel_, "/baton.v1.GenerationService/Tokenize", {""}).status.ok());
  }
  EXPECT_FALSE(RawCall(channel_, "/baton.v1.GenerationService/Detokenize", {""}).status.ok());
  ExpectSoon(Handled("Tokenize", "OK", 2));
  ExpectSoon(Handled("Detokenize", "INVALID_ARGUMENT", 1));
  ExpectSoon(absl::StrCat("baton_grpc_server_handling_seconds_count{grpc_method=\"Tokenize\",",
                          "grpc_service=\"baton.v1.GenerationService\",", kEnd, "2\n"));
}

TEST_F(CallMetricsTest, AStreamIsMeasuredToItsEnd) {
  grpc::ClientContext context;
  const auto stub = v1::GenerationService::NewStub(channel_);
  const auto reader = stub->Generate(&context, v1::GenerateRequest());
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_THAT(metrics_.Scrape(), Not(HasSubstr("grpc_method=\"Generate\""))) << "it goes on";
  service_.Stop();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  ExpectSoon(Handled("Generate", "UNAVAILABLE", 1));
}

TEST_F(CallMetricsTest, WhatCallersMakeUpIsNoLabel) {
  for (int i = 0; i < 20; ++i) {
    const std::string method = absl::StrCat("/made.up", i, "/Method");
    EXPECT_EQ(RawCall(channel_, method, {""}).status.code(), absl::StatusCode::kUnimplemented);
  }
  ExpectSoon(absl::StrCat("baton_grpc_server_handled_total{grpc_code=\"UNIMPLEMENTED\",",
                          "grpc_method=\"unknown\",grpc_service=\"unknown\",", kEnd, "20\n"));
  EXPECT_THAT(metrics_.Scrape(), Not(HasSubstr("made.up")));
}

}  // namespace
}  // namespace baton
