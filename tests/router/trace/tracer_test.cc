#include "router/trace/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/router/router_fixture.h"

namespace baton {
namespace {

using TraceJson = nlohmann::json;
using testing::StartsWith;

constexpr char kCallersTrace[] = "0af7651916cd43dd8448eb211c80319c";

class TracerTest : public RouterFixture {
 protected:
  TracerTest() {
    char folder[] = "/tmp/baton-tracer-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~TracerTest() override {
    Stop();
    tracer_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Trace(TracerOptions options = {}) {
    options.file = folder_ + "/trace.json";
    auto tracer = Tracer::Start(options, "router-1", "letters", metrics_);
    ASSERT_TRUE(tracer.ok()) << tracer.status();
    tracer_ = *std::move(tracer);
    options_.tracer = tracer_.get();
  }
  // The events of the requests themselves, when all are written.
  std::vector<TraceJson> Requests() {
    EXPECT_TRUE(tracer_->Close(absl::Seconds(10)));
    std::ifstream file(folder_ + "/trace.json");
    std::vector<TraceJson> requests;
    for (const TraceJson& event : TraceJson::parse(file)) {
      if (event.at("args").contains("gen_ai.response.id")) requests.push_back(event);
    }
    return requests;
  }

  std::string folder_;
  std::unique_ptr<Tracer> tracer_;
};

TEST_F(TracerTest, CallsToWorkersBelongToTheCallersTrace) {
  MockWorker& prefill = AddPrefill();
  MockWorker& decode = AddDecode();
  Trace();
  Start();
  grpc::ClientContext context;
  context.AddMetadata("traceparent", std::string("00-") + kCallersTrace + "-b7ad6b7169203331-01");
  ASSERT_TRUE(Generate(Request("hello", 5), &context).status.ok());
  EXPECT_THAT(prefill.trace_parent(), StartsWith(std::string("00-") + kCallersTrace));
  EXPECT_EQ(prefill.trace_parent(), decode.trace_parent()) << "both are children of one span";
  EXPECT_THAT(prefill.trace_parent(), testing::Not(testing::HasSubstr("b7ad6b7169203331")))
      << "of the router's own";
  const std::vector<TraceJson> requests = Requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].at("args").at("trace_id"), kCallersTrace);
}

TEST_F(TracerTest, WhereNothingIsTracedWorkersHearOfNoTrace) {
  MockWorker& prefill = AddPrefill();
  AddDecode();
  Start();
  grpc::ClientContext context;
  context.AddMetadata("traceparent", std::string("00-") + kCallersTrace + "-b7ad6b7169203331-01");
  ASSERT_TRUE(Generate(Request("hello", 5), &context).status.ok());
  EXPECT_EQ(prefill.trace_parent(), "");
}

TEST_F(TracerTest, AnAttemptThatBrokeIsToldWithItsWorkers) {
  AddPrefill();
  AddDecode().Behave({.fails = true});
  AddDecode();
  Trace();
  Start();
  // Placement may choose the good one first; the bad one takes part before its circuit opens.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Generate(Request("hello", 5)).status.ok());
  const std::vector<TraceJson> requests = Requests();
  ASSERT_EQ(requests.size(), 4u);
  int attempts = 0;
  for (const TraceJson& request : requests) {
    attempts += request.at("args").at("baton.attempts").get<int>();
    EXPECT_EQ(request.at("args").at("gen_ai.usage.output_tokens"), 5);
  }
  EXPECT_GT(attempts, 4);
}

TEST_F(TracerTest, IdsAreDrawnWhereTheCallerHasNone) {
  Trace();
  const TraceContext first = tracer_->NewContext({}), second = tracer_->NewContext({});
  EXPECT_EQ(first.trace_id.size(), 32u);
  EXPECT_EQ(first.span_id.size(), 16u);
  EXPECT_EQ(first.parent_id, "");
  EXPECT_NE(first.trace_id, second.trace_id);
  EXPECT_FALSE(first.sampled) << "there is no collector";
  const std::string parent = std::string("00-") + kCallersTrace + "-b7ad6b7169203331-01";
  EXPECT_EQ(tracer_->NewContext({.parent = parent, .state = "a=1"}).state, "a=1");
  const std::string long_state(kMaxTraceState + 1, 'a');
  EXPECT_EQ(tracer_->NewContext({.parent = parent, .state = long_state}).state, "");
}

}  // namespace
}  // namespace baton
