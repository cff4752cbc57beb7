// Calls that are cancelled in whatever phase: the work stops with the step in flight, everything
// comes back, and the next requests have their tokens. scripts/cancel.sh runs it long, by
//   BATON_CANCELS       how many are cancelled
//   BATON_CANCEL_MODEL  a model file, instead of the tiny one
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "common/base/clock.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

using internal::v1::DecodeResponse;
using internal::v1::PrefillResponse;
using internal::v1::SequenceSpec;

enum Phase { kOpening, kPrefill, kTransfer, kDecode, kDone, kPhases };
constexpr const char* kPhaseNames[kPhases] = {"opening", "prefill", "transfer", "decode", "done"};
constexpr absl::Duration kRest = absl::Milliseconds(5);
constexpr int kLongestPrompt = 300;
constexpr int kOutput = 64;
constexpr int kChecked = 50;  // a request that is not cancelled follows so many that are

// A request that runs on a thread of its own and may be cancelled at any time.
class Handoff {
 public:
  Handoff(TestWorker& prefill, TestWorker& decode, const SequenceSpec& spec)
      : calls_(&prefill, decode, spec), thread_([this] { Run(); }) {}
  ~Handoff() { thread_.join(); }

  Phase phase() const { return phase_; }
  void Cancel() { calls_.Cancel(); }

 private:
  void Run() {
    calls_.Run({.on_decode =
                    [this](const DecodeResponse& response) {
                      if (response.has_accepted()) phase_ = kPrefill;
                      if (response.has_committed()) phase_ = kDecode;
                    },
                .on_prefill =
                    [this](const PrefillResponse& response) {
                      Phase computing = kPrefill;
                      if (!response.has_first_token()) return;
                      phase_.compare_exchange_strong(computing, kTransfer);
                    }});
    phase_ = kDone;
  }

  HandoffCalls calls_;
  std::atomic<Phase> phase_ = kOpening;
  std::thread thread_;
};

// What a worker's engine still does after a cancellation.
class Watched {
 public:
  explicit Watched(TestWorker& worker) : worker_(worker), progress_(Progress()) {}
  // Whether it holds nothing any more.
  bool Look(absl::Time now) {
    const EngineStats stats = worker_.engine().Stats();
    if (stats.progress != progress_) last_layer_ = now;
    layers_ += stats.progress - progress_;
    progress_ = stats.progress;
    return stats.used_blocks == 0 && stats.reserved_blocks == 0 && stats.waiting_sequences == 0 &&
           stats.running_sequences == 0;
  }
  uint64_t Progress() const { return worker_.engine().Stats().progress; }
  uint64_t layers() const { return layers_; }
  absl::Time last_layer() const { return last_layer_; }

 private:
  TestWorker& worker_;
  uint64_t progress_;
  uint64_t layers_ = 0;
  absl::Time last_layer_ = absl::InfinitePast();
};

struct Measured {
  absl::Duration back;        // from the cancellation until every block is back
  absl::Duration after_step;  // the time after the last layer that was computed
  uint64_t layers = 0;        // computed after the cancellation
};

// A call that has just begun may reach its worker after the cancellation did: rest is what stays
// so.
Measured CancelAndWatch(TestWorker& prefill, TestWorker& decode, Handoff& handoff) {
  Watched watched[] = {Watched(prefill), Watched(decode)};
  const absl::Time begin = SteadyNow();
  handoff.Cancel();
  absl::Time now = begin;
  absl::Time last_layer = begin;
  absl::Time rests_since = absl::InfiniteFuture();
  while (now < std::min(begin + absl::Seconds(20), rests_since + kRest)) {
    now = SteadyNow();
    const bool prefill_rests = watched[0].Look(now);
    const bool rests = watched[1].Look(now) && prefill_rests;
    last_layer = std::max(watched[0].last_layer(), watched[1].last_layer());
    rests_since = rests ? std::max(std::min(rests_since, now), last_layer) : absl::InfiniteFuture();
    absl::SleepFor(absl::Microseconds(50));
  }
  EXPECT_LT(rests_since, now) << "not all blocks are back";
  return {.back = rests_since - begin,
          .after_step = rests_since - std::max(begin, last_layer),
          .layers = watched[0].layers() + watched[1].layers()};
}

size_t FilesIn(const char* folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

class Cancel : public ::testing::Test {
 protected:
  Cancel() {
    if (const char* model = std::getenv("BATON_CANCEL_MODEL")) {
      options_.model = model;
      options_.block_size = 32;
      options_.max_num_batched_tokens = 512;
      options_.sender_limits = {};
      options_.receiver_limits = {};
    }
    if (const char* count = std::getenv("BATON_CANCELS")) cancels_ = std::atoi(count);
    prefill_ = std::make_unique<TestWorker>(options_);
    decode_ = std::make_unique<TestWorker>(options_);
  }

  SequenceSpec Spec(int prompt, int output, bool sampled) {
    std::vector<int32_t> ids;
    for (int i = 0; i < prompt; ++i) ids.push_back(static_cast<int32_t>(random_() % 200));
    return Spec(ids, output, sampled);
  }
  SequenceSpec Spec(const std::vector<int32_t>& ids, int output, bool sampled) {
    SamplingParams sampling;
    sampling.temperature = sampled ? 1 : 0;
    sampling.seed = 5;
    sampling.max_tokens = output;
    sampling.ignore_eos = true;
    return MakeSpec(ids, sampling, ++last_request_);
  }
  // The request's tokens, as ids.
  std::vector<uint32_t> TokensOf(const SequenceSpec& spec) {
    return RunHandoff(*prefill_, *decode_, spec).token_ids();
  }

  TestWorker::Options options_;
  int cancels_ = 300;
  std::unique_ptr<TestWorker> prefill_;
  std::unique_ptr<TestWorker> decode_;
  std::mt19937 random_{1};
  uint64_t last_request_ = 0;
};

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

void Report(const char* phase, std::vector<Measured>& all) {
  const auto at = [&](auto field, double part) {
    const auto nth =
        all.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(all.size() - 1));
    std::nth_element(all.begin(), nth, all.end(),
                     [&](const Measured& a, const Measured& b) { return a.*field < b.*field; });
    return (*nth).*field;
  };
  std::printf(
      "%-8s %6zu cancelled; ms until the blocks are back: p50 %.2f, p99 %.2f, max %.2f; of these "
      "after the last layer: p50 %.2f, p99 %.2f, max %.2f; layers computed: p50 %llu, max %llu\n",
      phase, all.size(), Milliseconds(at(&Measured::back, 0.5)),
      Milliseconds(at(&Measured::back, 0.99)), Milliseconds(at(&Measured::back, 1)),
      Milliseconds(at(&Measured::after_step, 0.5)), Milliseconds(at(&Measured::after_step, 0.99)),
      Milliseconds(at(&Measured::after_step, 1)),
      static_cast<unsigned long long>(at(&Measured::layers, 0.5)),
      static_cast<unsigned long long>(at(&Measured::layers, 1)));
}

TEST_F(Cancel, InWhateverPhaseGivesEverythingBackAndHarmsNobody) {
  const std::vector<int32_t> ids(60, 7);
  std::vector<uint32_t> right[2];
  for (const bool sampled : {false, true}) right[sampled] = TokensOf(Spec(ids, 12, sampled));
  const absl::Time begin = SteadyNow();
  TokensOf(Spec(kLongestPrompt, kOutput, false));
  const absl::Duration whole = SteadyNow() - begin;

  std::map<Phase, std::vector<Measured>> measured;
  size_t descriptors = 0;
  size_t threads = 0;
  for (int i = 0; i < cancels_; ++i) {
    {
      Handoff handoff(
          *prefill_, *decode_,
          Spec(16 + static_cast<int>(random_() % (kLongestPrompt - 16)), kOutput, i % 2 == 1));
      absl::SleepFor(whole * std::uniform_real_distribution<>(0, 1)(random_));
      const Phase phase = handoff.phase();
      measured[phase].push_back(CancelAndWatch(*prefill_, *decode_, handoff));
    }
    ASSERT_TRUE(prefill_->ComesToRest()) << "cancel " << i;
    ASSERT_TRUE(decode_->ComesToRest()) << "cancel " << i;
    if (i % kChecked != kChecked - 1) continue;
    const bool sampled = i / kChecked % 2 == 1;
    ASSERT_EQ(TokensOf(Spec(ids, 12, sampled)), right[sampled]) << "after cancel " << i;
    ASSERT_TRUE(prefill_->ComesToRest() && decode_->ComesToRest());
    if (descriptors != 0) continue;
    descriptors = FilesIn("/proc/self/fd");
    threads = FilesIn("/proc/self/task");
  }
  EXPECT_LE(FilesIn("/proc/self/fd"), descriptors + 10);
  EXPECT_LE(FilesIn("/proc/self/task"), threads + 20);
  for (auto& [phase, all] : measured) Report(kPhaseNames[phase], all);
  for (const Phase phase : {kPrefill, kDecode}) EXPECT_GT(measured[phase].size(), 0u);
}

}  // namespace
}  // namespace baton
