#include "router/planner/advisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "router/calls/thread_loop.h"
#include "router/fleet/fleet.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;
using internal::v1::WorkerRole;

// Workers that are played, four reports a second. A lone sequence has a token in 20 ms, each more
// makes it 1 ms later.
class AdvisorTest : public testing::Test {
 protected:
  ~AdvisorTest() override {
    for (auto& [target, worker] : workers_) fleet_.Remove(*worker);
  }

  Worker& Add(WorkerRole role, const std::string& address) {
    auto worker = std::make_unique<Worker>();
    worker->target = {.role = role, .address = address};
    worker->watch = std::make_unique<StreamingCall<internal::v1::WatchResponse>>(
        loop_, CallHandlers<internal::v1::WatchResponse>{});
    worker->state = internal::v1::WORKER_STATE_READY;
    worker->info.set_incarnation(++incarnations_);
    worker->seen.total_blocks = worker->seen.free_blocks = 1000;
    fleet_.pages().Add(*worker);
    fleet_.AddUnderNewId(*worker);
    return *workers_.emplace(worker->target, std::move(worker)).first->second;
  }
  void SetUp() override {
    prefill_ = &Add(WORKER_ROLE_PREFILL, "p:1");
    for (int i = 0; i < 4; ++i)
      decodes_.push_back(&Add(WORKER_ROLE_DECODE, "d:" + std::to_string(i)));
  }
  // A tick in which the prefill worker computes `prompt_tokens` and is busy for `busy` of it.
  void Tick(uint64_t prompt_tokens, absl::Duration busy) {
    prefill_->prompt_time.Set(true, now_);
    prefill_->prompt_time.Set(false, now_ + busy);
    now_ += absl::Milliseconds(250);
    ++ticks_;
    prefill_->traffic.prompt_tokens += prompt_tokens;
    Demand::Place place = demand_.Arrived(static_cast<uint32_t>(prompt_tokens));
    demand_.GotWorkers(place, static_cast<uint32_t>(prompt_tokens));
    demand_.Ended(place, output_tokens_, false);
    for (size_t i = 0; i < decodes_.size(); ++i) {
      Worker& worker = *decodes_[i];
      const auto sequences = static_cast<uint32_t>(1 + (ticks_ / 40 + 5 * i) % 16);
      generated_[i] += 0.25 * sequences / (0.020 + 0.001 * sequences);
      worker.load.set_generated_tokens(static_cast<uint64_t>(generated_[i]));
      worker.runnable_sequences = sequences;
      worker.last_heard = now_;
    }
    advice_ = advisor_.Tick(workers_, now_);
  }
  void Play(int seconds) {
    for (int i = 0; i < 4 * seconds; ++i) Tick(500, absl::Milliseconds(125));
  }

  ThreadLoop loop_;
  Fleet fleet_{loop_};
  WorkersByTarget workers_;
  uint64_t incarnations_ = 0;
  Worker* prefill_ = nullptr;
  std::vector<Worker*> decodes_;
  double generated_[4] = {};
  uint64_t ticks_ = 0, output_tokens_ = 100, refused_ = 0;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Demand demand_;
  Advisor advisor_{demand_, {}, [this] { return refused_; }};
  Advice advice_;
};

TEST_F(AdvisorTest, MeasuresWhatABusyPrefillWorkerComputes) {
  Play(40);
  ASSERT_TRUE(advice_.prefill.needed.has_value()) << advice_.prefill.why;
  EXPECT_NEAR(*advice_.prefill.needed, 0.5 / 0.8, 0.02) << "half of its time, whatever its speed";
  EXPECT_THAT(advice_.prefill.why, testing::HasSubstr("4000/s by a busy worker"));
  EXPECT_EQ(advice_.prefill.ready, 1u);
  EXPECT_EQ(advice_.decode.ready, 4u);
}

TEST_F(AdvisorTest, MeasuresHowTheTimeOfATokenGrows) {
  Play(120);
  ASSERT_TRUE(advice_.decode.needed.has_value()) << advice_.decode.why;
  EXPECT_NEAR(*advice_.decode.needed, 4.0 * 100 / (500 * 0.8), 0.1) << advice_.decode.why;
}

TEST_F(AdvisorTest, AWorkerThatBeginsAnewIsNotTakenForOneThatGoesBack) {
  Play(60);
  const double prefill = *advice_.prefill.needed, decode = *advice_.decode.needed;
  prefill_->traffic = {};
  prefill_->info.set_incarnation(77);
  for (Worker* worker : decodes_) worker->info.set_incarnation(++incarnations_);
  for (double& generated : generated_) generated = 0;
  Play(60);
  EXPECT_NEAR(*advice_.prefill.needed, prefill, 0.05);
  EXPECT_NEAR(*advice_.decode.needed, decode, 0.1);
}

TEST_F(AdvisorTest, SequencesWhoseKvHasComeAreGeneratedFor) {
  Play(60);
  for (Worker* worker : decodes_) {
    worker->seen.own_sequences = 40;
    worker->seen.own_arriving = 5;
    worker->seen.own_prompts = 3;
  }
  Play(6);
  EXPECT_NEAR(*advice_.decode.needed, 4.0 * 32 / (20 * 0.8), 0.5) << advice_.decode.why;
}

TEST_F(AdvisorTest, AWorkerThatIsGoneLeavesItsMeasuresBehind) {
  Play(60);
  const double before = *advice_.prefill.needed;
  for (Worker* worker : decodes_) worker->state = internal::v1::WORKER_STATE_DRAINING;
  Play(10);
  EXPECT_EQ(advice_.decode.ready, 0u);
  EXPECT_TRUE(advice_.decode.needed.has_value());
  EXPECT_NEAR(*advice_.prefill.needed, before, 0.05);
}

}  // namespace
}  // namespace baton
