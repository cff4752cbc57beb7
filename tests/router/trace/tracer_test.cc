#include "router/trace/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "tests/router/router_fixture.h"
#include "tests/support/full_disk.h"

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

// Keeps the log while it lives.
class KeptLog {
 public:
  KeptLog() : before_((CurrentLogger(), spdlog::default_logger())) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "kept", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
  }
  ~KeptLog() { spdlog::set_default_logger(before_); }

  // How many lines have these words. REQUIRES: nothing is logged meanwhile.
  int Count(const std::string& words) const {
    int count = 0;
    std::istringstream lines(lines_.str());
    for (std::string line; std::getline(lines, line);) {
      count += line.find(words) == std::string::npos ? 0 : 1;
    }
    return count;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_;
  std::ostringstream lines_;
};

TEST_F(TracerTest, AFullDiskAndItsEndAreALineEachAndTheFileGoesOn) {
  const KeptLog log;
  AddPrefill();
  AddDecode();
  Trace();
  Start();
  const auto dropped = [this] { return Metric("baton_trace_dropped_total", "\"file\""); };
  {
    const FullDisk full(1);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(Generate(Request("hello", 5)).status.ok());
    Eventually([&] { return dropped() == 3; });
  }
  const std::string file = folder_ + "/trace.json";
  const auto head = std::filesystem::file_size(file);
  Eventually([&] {
    EXPECT_TRUE(Generate(Request("hello", 5)).status.ok());
    return std::filesystem::file_size(file) > head;
  });
  Stop();
  EXPECT_GE(Requests().size(), 1u);
  EXPECT_EQ(log.Count("trace.json: cannot be written: "), 1);
  EXPECT_EQ(log.Count("trace.json: is written again; "), 1);
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
