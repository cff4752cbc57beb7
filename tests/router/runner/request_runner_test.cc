#include "router/runner/request_runner.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/net/metrics.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "tests/router/fleet/ready_worker.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/router/sim_client_writer.h"
#include "tests/simulation/router/virtual_loop.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::WatchResponse;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PlayedDecode;
using OpenCalls = std::map<uint64_t, PlayedDecode*>;  // [request]

// A Decode call whose worker is played by the test. Is in `open` from its first message to its end.
class PlayedDecode final : public DecodeStream {
 public:
  PlayedDecode(EventQueue& queue, OpenCalls& open, StreamEvents& events)
      : queue_(queue), open_(open), events_(events) {}
  ~PlayedDecode() override {
    const auto found = open_.find(request_);
    if (found != open_.end() && found->second == this) open_.erase(found);
  }
  PlayedDecode(const PlayedDecode&) = delete;
  PlayedDecode& operator=(const PlayedDecode&) = delete;

  void Answer(const DecodeResponse& response) {
    *response_ = response;
    events_.OnReadDone(true);
  }
  void Start() override {}
  void StartRead(DecodeResponse* response) override { response_ = response; }
  void NoMoreReads() override {}
  void Cancel() override {
    if (std::exchange(cancelled_, true)) return;
    queue_.After(1, [this] {
      events_.OnReadDone(false);
      events_.OnDone(absl::CancelledError(""));
    });
  }
  std::string PeerId() const override { return ""; }
  std::string PeerAddress() const override { return ""; }
  void StartWrite(const DecodeRequest* message) override {
    if (!message->has_start()) return;
    request_ = message->start().sequence().key().request_id_low();
    open_[request_] = this;
  }
  void StartWritesDone() override {}

 private:
  EventQueue& queue_;
  OpenCalls& open_;
  StreamEvents& events_;
  DecodeResponse* response_ = nullptr;
  uint64_t request_ = 0;
  bool cancelled_ = false;
};

class PlayedRpcs final : public WorkerRpcs {
 public:
  PlayedRpcs(EventQueue& queue, OpenCalls& open) : queue_(queue), open_(open) {}
  std::unique_ptr<ReadStream<WatchResponse>> Watch(StreamEvents&) override { return nullptr; }
  std::unique_ptr<ReadStream<PrefillResponse>> Prefill(const PrefillRequest&, const TraceContext*,
                                                       StreamEvents&) override {
    return nullptr;
  }
  std::unique_ptr<DecodeStream> Decode(const TraceContext*, StreamEvents& events) override {
    return std::make_unique<PlayedDecode>(queue_, open_, events);
  }

 private:
  EventQueue& queue_;
  OpenCalls& open_;
};

// Three decode workers, which compute prompts themselves.
class RequestRunnerTest : public testing::Test {
 protected:
  enum WorkerIndex : size_t { kA, kB, kC };
  struct DecodeWorker {
    OpenCalls open;
    std::unique_ptr<ReadyWorker> worker;
  };
  struct Asked {
    std::vector<WorkerIndex> preferred;  // the first that is ready gets the next attempt
    absl::Status end;                    // end of its client's call
    bool ended = false;
  };

  RequestRunnerTest() {
    for (const size_t index : {kA, kB, kC}) {
      DecodeWorker& added = workers_[index];
      added.worker = std::make_unique<ReadyWorker>(loop_, fleet_, internal::v1::WORKER_ROLE_DECODE);
      added.worker->worker().target.address = absl::StrCat("worker", index, ":1");
      added.worker->worker().rpcs = std::make_unique<PlayedRpcs>(queue_, added.open);
    }
    table_.bytes.resize(100, "a");
    table_.special.resize(100);
  }
  ~RequestRunnerTest() override {
    bool closed = false;
    runner_.Close(absl::CancelledError("the test is over"), [&closed] { closed = true; });
    while (!closed) queue_.RunNext();
  }

  Placement ChoosePreferred(const WorkerNeeds& needs, absl::Span<const WorkerSnapshot> decode) {
    for (const WorkerIndex index : asked_.at(needs.prompt_tokens).preferred) {
      for (size_t i = 0; i < decode.size(); ++i) {
        if (decode[i].id != workers_[index].worker->id()) continue;
        return {.outcome = Placement::Outcome::kPlaced, .prefill = {}, .decode = i};
      }
    }
    return {.outcome = Placement::Outcome::kWait, .prefill = {}, .decode = {}};
  }
  void RunFor(absl::Duration duration) {
    bool over = false;
    queue_.After(absl::ToInt64Microseconds(duration), [&over] { over = true; });
    while (!over) queue_.RunNext();
  }
  // A request whose prompt has `number` tokens.
  void Ask(uint64_t number, std::vector<WorkerIndex> preferred) {
    Asked& asked = asked_[number];
    asked.preferred = std::move(preferred);
    auto ticket = admission_.Admit({}, loop_.Now());
    ASSERT_TRUE(ticket.ok());
    auto writer = std::make_unique<SimClientWriter>(
        queue_, SimClientWriter::Client{.take = [](const v1::GenerateResponse&,
                                                   const std::function<void()>& taken) { taken(); },
                                        .end =
                                            [&asked](const absl::Status& status) {
                                              asked.end = status;
                                              asked.ended = true;
                                            }});
    runner_.Arrived(number, std::make_unique<ClientCall>(loop_, std::move(writer)),
                    *std::move(ticket));
    RequestSpec spec;
    spec.id_low = number;
    spec.prompt_token_ids.assign(number, 1);
    spec.sampling.set_max_tokens(50);
    spec.sampling.set_n(1);
    spec.stream = true;
    spec.received = loop_.Now();
    spec.deadline = loop_.Now() + absl::Hours(1);
    runner_.Prepared(number, std::move(spec), table_);
    RunFor(absl::Milliseconds(1));
  }
  void Accept(WorkerIndex index, uint64_t number) {
    DecodeResponse accepted;
    accepted.mutable_accepted();
    workers_[index].open.at(number)->Answer(accepted);
    RunFor(absl::Milliseconds(1));
  }
  void AcceptAndCompute(WorkerIndex index, uint64_t number) {
    Accept(index, number);
    DecodeResponse begun;
    begun.mutable_prefill_progress()->set_computed_tokens(0);
    workers_[index].open.at(number)->Answer(begun);
    RunFor(absl::Milliseconds(1));
  }
  // Reports it to the runner as the registry does. Returns the worker's name for clients.
  std::string StandStill(WorkerIndex index, absl::Time since) {
    ReadyWorker& of = *workers_[index].worker;
    const uint64_t id = of.id();
    std::string name = of.worker().told_name(false);
    runner_.WorkerStoodStill(of.worker(), since);
    runner_.WorkerLost(
        id, WithErrorInfo(absl::UnavailableError("no progress"), {.reason = kReasonWorkerLost}));
    of.ComeAgain();
    of.SetReady(false);
    RunFor(absl::Milliseconds(100));
    return name;
  }
  std::string StandStill(WorkerIndex index) { return StandStill(index, loop_.Now()); }
  bool Computes(WorkerIndex index, uint64_t number) const {
    return workers_[index].open.count(number) > 0;
  }

  EventQueue queue_;
  Admission admission_{Admission::Limits{}};
  VirtualLoop loop_{queue_};
  Fleet fleet_{loop_};
  FleetView view_;
  Metrics metrics_{"router"};
  RouterMetrics router_metrics_{metrics_, admission_};
  TokenTable table_;
  std::array<DecodeWorker, 3> workers_;
  std::map<uint64_t, Asked> asked_;
  RequestRunner runner_{
      {.loop = loop_,
       .fleet = fleet_,
       .view = view_,
       .admission = admission_,
       .metrics = router_metrics_,
       .observer = router_metrics_,
       .place = [this](const WorkerNeeds& needs, absl::Span<const WorkerSnapshot>,
                       absl::Span<const WorkerSnapshot> decode, const PlacementOptions&, uint64_t,
                       LinkLookup) { return ChoosePreferred(needs, decode); },
       .random_bytes = [](size_t count) { return std::string(count, 'x'); }},
      RequestRunner::Options()};
};

constexpr uint64_t kCostly = 20, kFirst = 21, kSecond = 22;  // requests

TEST_F(RequestRunnerTest, TheOneRequestThatRanOnTwoWorkersWhichStoodStillEndsByNameOthersGoOn) {
  Ask(kCostly, {kA, kB, kC});
  Ask(kFirst, {kA, kC});
  Ask(kSecond, {kB, kC});
  AcceptAndCompute(kA, kCostly);
  AcceptAndCompute(kA, kFirst);
  AcceptAndCompute(kB, kSecond);
  const std::string first = StandStill(kA);
  EXPECT_FALSE(asked_[kCostly].ended) << "one worker proves nothing";
  ASSERT_TRUE(Computes(kB, kCostly));
  ASSERT_TRUE(Computes(kC, kFirst));
  AcceptAndCompute(kB, kCostly);
  AcceptAndCompute(kC, kFirst);

  const std::string second = StandStill(kB);
  ASSERT_TRUE(asked_[kCostly].ended);
  const absl::Status& end = asked_[kCostly].end;
  EXPECT_TRUE(absl::IsInternal(end)) << end;
  EXPECT_EQ(ErrorReason(end), kReasonPoisonRequest);
  EXPECT_EQ(GetErrorInfo(end)->stage, kStageDecode);
  EXPECT_THAT(std::string(end.message()),
              AllOf(HasSubstr(absl::StrCat("'", first, "' and '", second, "' both stood still")),
                    HasSubstr("not tried again")));
  EXPECT_FALSE(Computes(kA, kCostly) || Computes(kB, kCostly) || Computes(kC, kCostly));
  EXPECT_TRUE(Computes(kC, kFirst) && Computes(kC, kSecond));
  EXPECT_FALSE(asked_[kFirst].ended || asked_[kSecond].ended);
  EXPECT_EQ(runner_.running(), 2u);
}

TEST_F(RequestRunnerTest, OfSeveralRequestsThatRanOnBothWorkersNoneEnds) {
  for (const uint64_t number : {kCostly, kFirst}) Ask(number, {kA, kB, kC});
  for (const WorkerIndex index : {kA, kB}) {
    for (const uint64_t number : {kCostly, kFirst}) AcceptAndCompute(index, number);
    StandStill(index);
  }
  EXPECT_TRUE(Computes(kC, kCostly) && Computes(kC, kFirst));
  EXPECT_EQ(runner_.running(), 2u);
}

// Neither what waits for its blocks nor what begins when the engine no longer advances stops it.
TEST_F(RequestRunnerTest, ARequestThatAWorkerDoesNotComputeWhenItStopsIsNotTheCause) {
  Ask(kCostly, {kA, kB, kC});
  Accept(kA, kCostly);
  StandStill(kA);
  AcceptAndCompute(kB, kCostly);
  StandStill(kB);
  EXPECT_FALSE(asked_[kCostly].ended) << "it waited on the first";

  const absl::Time since = loop_.Now();
  Ask(kFirst, {kC});
  AcceptAndCompute(kC, kFirst);
  RunFor(2 * kWatchInterval);
  ASSERT_TRUE(Computes(kC, kCostly));
  AcceptAndCompute(kC, kCostly);
  StandStill(kC, since);
  EXPECT_FALSE(asked_[kCostly].ended) << "it came to the third when that had stopped";
  EXPECT_EQ(runner_.running(), 2u);
}

TEST_F(RequestRunnerTest, AWorkerThatIsLostWithoutStandingStillProvesNothing) {
  Ask(kCostly, {kA, kB, kC});
  AcceptAndCompute(kA, kCostly);
  ReadyWorker& silent = *workers_[kA].worker;
  const uint64_t id = silent.id();
  runner_.WorkerLost(id, absl::UnavailableError("no message"));
  silent.ComeAgain();
  silent.SetReady(false);
  RunFor(absl::Milliseconds(100));
  AcceptAndCompute(kB, kCostly);
  StandStill(kB);
  EXPECT_FALSE(asked_[kCostly].ended);
  EXPECT_TRUE(Computes(kC, kCostly));
}

}  // namespace
}  // namespace baton
