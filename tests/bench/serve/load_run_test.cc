#include "bench/serve/load_run.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "bench/serve/target/grpc_target.h"
#include "common/base/clock.h"
#include "common/base/small_file.h"
#include "router/tenants/api_key.h"
#include "tests/router/router_fixture.h"

namespace baton {
namespace {

class LoadRunTest : public RouterFixture {
 protected:
  LoadOptions Options(std::vector<LoadClass> classes) {
    LoadOptions options;
    options.classes = std::move(classes);
    options.warmup = absl::ZeroDuration();
    options.duration = absl::Milliseconds(400);
    options.vocab_size = 26;
    return options;
  }
  LoadReport Report(const LoadOptions& options) {
    grpc_.server = address_;
    auto target = GrpcTarget::Create(grpc_, Credentials::Loopback());
    EXPECT_TRUE(target.ok()) << target.status();
    auto run = LoadRun::Create(options, *std::move(target));
    EXPECT_TRUE(run.ok()) << run.status();
    auto report = (*run)->Run();
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }
  std::vector<LoadSamples> Run(const LoadOptions& options) { return Report(options).classes; }

  GrpcTarget::Options grpc_{.server = "", .connections = 2};
};

TEST_F(LoadRunTest, CountsEveryRequestAndEveryTokenOfEachClass) {
  AddPrefill();
  AddDecode();
  Start();
  const auto classes =
      Run(Options({{.name = "open", .rate = 100, .input_tokens = 5, .output_tokens = 9},
                   {.name = "closed", .concurrency = 3, .input_tokens = 5, .output_tokens = 4}}));
  ASSERT_EQ(classes.size(), 2u);
  const LoadSamples& open = classes[0];
  EXPECT_GT(open.offered, 10u);
  EXPECT_EQ(open.completed, open.offered);
  EXPECT_EQ(open.good, open.completed) << "there is no objective";
  EXPECT_EQ(open.ttft.size(), open.offered);
  EXPECT_EQ(open.send_lag.size(), open.offered);
  EXPECT_LE(open.tokens, open.offered * 9) << "those after the window do not count";
  const LoadSamples& closed = classes[1];
  EXPECT_GT(closed.completed, 3u);
  EXPECT_EQ(closed.completed + closed.cut, closed.offered);
  EXPECT_GE(closed.tokens, closed.completed * 4);
  ExpectNothingLeft();
}

TEST_F(LoadRunTest, EveryRequestShowsTheKey) {
  const std::string path = testing::TempDir() + "load_run_test", key = MakeApiKey();
  const KeysFile file{.tenants = {{"acme", {}}},
                      .keys = {{.hash = HashApiKey(key), .tenant = "acme"}}};
  ASSERT_TRUE(WriteKeysFile(path, file).ok());
  const auto keys = ApiKeys::Load(path, metrics_, absl::Minutes(1));
  ASSERT_TRUE(keys.ok()) << keys.status();
  options_.keys = keys->get();
  options_.needs_identity = true;
  AddPrefill();
  AddDecode();
  Start();
  const LoadOptions options = Options({{.rate = 100, .input_tokens = 5, .output_tokens = 3}});
  EXPECT_EQ(Run(options)[0].completed, 0u);
  ASSERT_TRUE(WriteSmallFile(path, key).ok());
  grpc_.key = *ClientKey::Read(path, address_, Credentials::Loopback());
  const LoadSamples shown = Run(options)[0];
  EXPECT_GT(shown.completed, 10u);
  EXPECT_EQ(shown.completed, shown.offered);
  Stop();
  unlink(path.c_str());
}

TEST_F(LoadRunTest, LatencyIncludesTheWaitForOthersAndDecidesWhatIsGood) {
  AddPrefill().Behave({.before_first_token = absl::Milliseconds(30)});
  AddDecode();
  Start();
  LoadOptions options = Options({{.rate = 200, .input_tokens = 5, .output_tokens = 1}});
  options.objective = "ttft=20ms";
  const auto classes = Run(options);
  EXPECT_GT(classes[0].completed, 10u);
  EXPECT_EQ(classes[0].good, 0u);
  for (const TimedSample& ttft : classes[0].ttft) EXPECT_GE(ttft.value_ns, 30'000'000);
  // The workers serve two requests at a time, which is 67 of the 200 requests/s.
  EXPECT_GE(Summarise(classes[0].ttft).max, 200);
  EXPECT_FALSE(classes[0].stages[0].empty()) << "the router tells how long requests waited";
}

TEST_F(LoadRunTest, RefusalsAndFailuresAreCountedApart) {
  AddPrefill();
  AddDecode().Behave({.before_accept = absl::Hours(1)});
  options_.admission.requests = 5;
  Start();
  LoadOptions options = Options({{.rate = 100, .input_tokens = 5, .output_tokens = 3}});
  grpc_.timeout = absl::Milliseconds(600);
  const auto classes = Run(options);
  EXPECT_GT(classes[0].refused, 0u);
  EXPECT_GT(classes[0].failed, 0u);
  EXPECT_EQ(classes[0].refused + classes[0].failed, classes[0].offered);
  EXPECT_EQ(classes[0].refusal.size(), classes[0].refused);
  // Client and router each have the deadline; either may notice it first.
  for (const auto& [message, count] : classes[0].failures) {
    EXPECT_THAT(message, testing::HasSubstr("DEADLINE_EXCEEDED"));
  }
  ExpectNothingLeft();
}

// Ends each request at once, and keeps when it was due and when it ended.
class QuickTarget : public LoadTarget {
 public:
  struct Seen {
    int64_t intended_ns, end_ns;
  };
  QuickTarget(std::vector<RequestOutcome> outcomes, std::vector<Seen>& seen)
      : outcomes_(std::move(outcomes)), seen_(seen) {}

  void Send(const LoadRequest&, LoadRecord& record) override {
    record.sent_ns = record.end_ns = SteadyNanoseconds();
    record.outcome = outcomes_[std::min(seen_.size(), outcomes_.size() - 1)];
    seen_.push_back({record.intended_ns, record.end_ns});
    ended_.push_back(&record);
  }
  std::vector<LoadRecord*> Poll(absl::Time until) override {
    if (ended_.empty()) absl::SleepFor(until - SteadyNow());
    return std::exchange(ended_, {});
  }
  void Cancel(LoadRecord&) override {}

 private:
  const std::vector<RequestOutcome> outcomes_;  // by request; the last one is repeated
  std::vector<Seen>& seen_;
  std::vector<LoadRecord*> ended_;
};

TEST_F(LoadRunTest, AStreamPausesLongerWithEachRefusalAndFailureUntilOneCompletes) {
  LoadOptions options = Options({{.concurrency = 1}});
  options.duration = absl::Milliseconds(900);
  const std::vector<RequestOutcome> outcomes = {RequestOutcome::kFailed, RequestOutcome::kRefused,
                                                RequestOutcome::kCompleted,
                                                RequestOutcome::kFailed};
  std::vector<QuickTarget::Seen> seen;
  auto run = LoadRun::Create(options, std::make_unique<QuickTarget>(outcomes, seen));
  ASSERT_TRUE(run.ok()) << run.status();
  const auto report = (*run)->Run();
  ASSERT_TRUE(report.ok()) << report.status();
  const int pauses_ms[] = {100, 200, 0, 100, 200};  // the next one ends behind the window
  ASSERT_GE(seen.size(), 5u);
  ASSERT_LE(seen.size(), 6u);
  for (size_t i = 0; i + 1 < seen.size(); ++i) {
    EXPECT_EQ(seen[i + 1].intended_ns - seen[i].end_ns, pauses_ms[i] * int64_t{1'000'000}) << i;
  }
  EXPECT_EQ(report->classes[0].offered, seen.size());
}

TEST_F(LoadRunTest, WaitsForNobodyWhereNothingIsUnderWayAtTheEnd) {
  AddPrefill();
  AddDecode();
  Start();
  const LoadOptions options = Options({{.rate = 1e-6, .input_tokens = 5, .output_tokens = 3}});
  const absl::Time begin = SteadyNow();
  EXPECT_EQ(Run(options)[0].offered, 0u);
  EXPECT_LT(SteadyNow() - begin, grpc_.timeout / 2);
}

// A trace whose requests are due at these times.
std::string TraceOf(const std::vector<int>& milliseconds) {
  const std::string path = testing::TempDir() + "load_run_trace";
  std::ofstream file(path, std::ios::trunc);
  for (const int at : milliseconds) {
    file << "{\"timestamp\": " << at << ", \"input_length\": 5, \"output_length\": 3}\n";
  }
  return path;
}

TEST_F(LoadRunTest, ATraceIsReplayedAtItsTimesAndEndsTheLoad) {
  AddPrefill();
  AddDecode();
  Start();
  LoadOptions options = Options({{.trace = TraceOf({1000, 1040, 1040, 1080})}});
  options.duration = absl::InfiniteDuration();
  options.trace.time_scale = 0.5;
  const LoadReport report = Report(options);
  const LoadSamples& load = report.classes[0];
  ASSERT_EQ(load.completed, 4u);
  EXPECT_EQ(load.tokens, 12u) << "all of the trace is measured";
  EXPECT_EQ(load.e2e.size(), 4u);
  std::vector<int64_t> due_ms;
  for (const TimedSample& lag : load.send_lag) {
    due_ms.push_back((lag.at_ns - report.window.from_ns) / 1'000'000);
    EXPECT_GE(lag.value_ns, 0) << "not before it is due";
  }
  std::sort(due_ms.begin(), due_ms.end());
  EXPECT_THAT(due_ms, testing::ElementsAre(0, 20, 20, 40));
  EXPECT_GE(report.seconds(), 0.04);
  EXPECT_LT(report.seconds(), 30);
}

// A target that is slow to send: each request takes the generator's thread 15 ms.
class SlowTarget : public LoadTarget {
 public:
  void Send(const LoadRequest& request, LoadRecord& record) override {
    record.sent_ns = SteadyNanoseconds();
    absl::SleepFor(absl::Milliseconds(15));
    record.end_ns = SteadyNanoseconds();
    record.messages = {{record.end_ns, request.output_tokens}};
    record.outcome = RequestOutcome::kCompleted;
    ended_.push_back(&record);
  }
  std::vector<LoadRecord*> Poll(absl::Time until) override {
    if (ended_.empty()) absl::SleepFor(until - SteadyNow());
    return std::exchange(ended_, {});
  }
  void Cancel(LoadRecord& /*record*/) override {}

 private:
  std::vector<LoadRecord*> ended_;
};

TEST_F(LoadRunTest, WhatTheGeneratorSendsLateCountsFromWhenItWasDue) {
  LoadOptions options = Options({{.trace = TraceOf({0, 0, 0, 0, 0})}});
  options.duration = absl::InfiniteDuration();
  auto run = LoadRun::Create(options, std::make_unique<SlowTarget>());
  ASSERT_TRUE(run.ok()) << run.status();
  const LoadReport report = *(*run)->Run();
  EXPECT_GE(Summarise(report.classes[0].send_lag).max, 60);
  EXPECT_GE(Summarise(report.classes[0].ttft).max, 75);
  EXPECT_GE(Summarise(report.classes[0].ttft).max,
            Summarise(report.classes[0].ttft_from_sent).max + 45);
  EXPECT_FALSE(report.kept_up());
}

TEST_F(LoadRunTest, WithoutAServerItSaysSo) {
  const auto target = GrpcTarget::Create({.server = "127.0.0.1:1"}, Credentials::Loopback());
  EXPECT_EQ(target.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(target.status().ToString(), testing::HasSubstr("--server 127.0.0.1:1"));
}

}  // namespace
}  // namespace baton
