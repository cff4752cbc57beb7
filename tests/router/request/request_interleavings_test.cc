// Attempts that break at any moment: the events of both workers in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "common/rpc/status.h"
#include "router/request/request_machine.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

// One attempt's two workers, which play the right tokens from where the attempt began.
class PlayedAttempt {
 public:
  PlayedAttempt(MachineHarness& harness, const std::vector<OutputToken>& right)
      : harness_(harness),
        right_(right),
        sent_(static_cast<uint32_t>(harness.machine.log(0).size())) {
    first_ = sent_;
    alone_ = first_ + 1 == right_.size() && !harness.Last<ChooseWorkers>()->needs.decode;
    harness_.Choose(true, !alone_);
    if (!alone_) harness_.DecodeAccepts();
  }
  bool KillPrefill() {
    if (prefill_gone_) return false;
    prefill_gone_ = true;
    harness_.PrefillEnds(kKilled);
    return true;
  }
  bool KillDecode() {
    if (decode_gone_ || alone_) return false;
    decode_gone_ = true;
    harness_.DecodeEnds(kKilled);
    return true;
  }
  // The prefill worker: started, first token, then (once committed) finished, end.
  void PrefillGoesOn() {
    if (prefill_gone_) return;
    const bool ends = first_ + 1 == right_.size();
    if (step_ == 0) {
      harness_.PrefillStarts();
    } else if (step_ == 1) {
      harness_.PrefillSends(right_[first_]);
    } else if (step_ == 2 && (committed_ || ends)) {
      harness_.PrefillFinishes();
    } else if (step_ == 3) {
      harness_.PrefillEnds(absl::OkStatus());
      prefill_gone_ = true;
    } else {
      return;
    }
    ++step_;
  }
  void DecodeGoesOn(uint32_t most) {
    const auto count = static_cast<uint32_t>(right_.size());
    if (decode_gone_ || alone_) return;
    // It can commit once the prefill worker has its first token, delivered to us or not.
    if (!committed_ && first_ + 1 < count) {
      if (step_ < 1 || prefill_gone_) return;
      harness_.DecodeCommits();
      committed_ = true;
    } else if (committed_ && sent_ < count) {
      const uint32_t end = std::min(count, sent_ + most);
      harness_.DecodeSends({right_.begin() + sent_, right_.begin() + end});
      sent_ = end;
    } else if (sent_ == count && !finished_) {
      harness_.DecodeFinishes();
      finished_ = true;
    }
  }

 private:
  MachineHarness& harness_;
  const std::vector<OutputToken>& right_;
  uint32_t first_ = 0;  // output index
  uint32_t sent_;
  int step_ = 0;
  bool alone_ = false;  // no decode worker is involved
  bool committed_ = false, finished_ = false, decode_gone_ = false, prefill_gone_ = false;
};

// Each worker's events come in its own order, the two interleaved in any way; now and then a worker
// dies, the client leaves or time passes. Whatever happens: one terminal, and what was delivered is
// a beginning of the right tokens; and all of them, unless the client left or nobody is left.
TEST(RequestResume, EndsOnceWithTheRightTokensUnderAnyInterleavingAndAnyDeaths) {
  int completed = 0, resumed = 0, cancelled = 0, poisoned = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto chance = [&](uint32_t of) { return random() % of == 0; };
    const uint32_t count = 1 + random() % 8;
    std::vector<OutputToken> right;
    for (uint32_t i = 0; i + 1 < count; ++i) right.push_back(Token(i, random() % 26));
    const bool stops = chance(2);
    right.push_back(stops ? LastToken(count - 1, 26, v1::FINISH_REASON_STOP)
                          : LastToken(count - 1, random() % 26, v1::FINISH_REASON_LENGTH));
    // A request for one token involves no decode worker: two at least, or the end comes early.
    const uint32_t most = std::max<uint32_t>(count + (stops ? random() % 2 : 0), stops ? 2 : 1);
    MachineHarness harness(MachineHarness::Spec(most));
    const bool faults = chance(2);
    std::optional<PlayedAttempt> attempt;
    int asked = 0;
    bool left = false;
    for (int turn = 0; turn < 2000 && harness.terminals() == 0; ++turn) {
      if (harness.Count<ChooseWorkers>() > asked) {
        asked = harness.Count<ChooseWorkers>();
        attempt.emplace(harness, right);
      } else if (harness.machine.attempt() > static_cast<uint32_t>(asked)) {
        harness.PassTime(absl::Seconds(3));  // it waits before it asks
      } else if (faults && chance(15)) {
        if (chance(10)) {
          harness.Feed(ClientCancelled{});
          left = true;
        } else if (chance(2)) {
          attempt->KillPrefill();
        } else {
          attempt->KillDecode();
        }
      } else if (chance(2)) {
        attempt->PrefillGoesOn();
      } else {
        attempt->DecodeGoesOn(1 + random() % 3);
      }
      if (chance(8)) harness.PassTime(absl::Milliseconds(random() % 100));
    }
    for (int i = 0; i < 20 && harness.terminals() == 0; ++i) harness.PassTime(absl::Hours(1));
    ASSERT_EQ(harness.terminals(), 1) << seed;
    const size_t visible = stops ? count - 1 : count;
    ASSERT_LE(harness.ids.size(), visible) << seed;
    for (size_t i = 0; i < harness.ids.size(); ++i) {
      ASSERT_EQ(harness.ids[i], right[i].token().token_id()) << seed;
    }
    if (harness.Count<Complete>() == 1) {
      ++completed;
      resumed += harness.machine.attempt() > 1;
      ASSERT_EQ(harness.ids.size(), visible) << seed;
      ASSERT_EQ(harness.complete().usage().completion_tokens(), count) << seed;
    } else if (left) {
      ++cancelled;
    } else {
      ++poisoned;
      ASSERT_EQ(ErrorReason(harness.failure()), kReasonPoisonRequest)
          << seed << " " << harness.failure();
    }
    const size_t actions_at_end = harness.actions.size();
    harness.DecodeSends({Token(0, 1)});
    harness.Feed(ClientCancelled{});
    ASSERT_EQ(harness.actions.size(), actions_at_end) << "nothing follows the terminal";
  }
  EXPECT_GT(completed, 2500);
  EXPECT_GT(resumed, 300);
  EXPECT_GT(cancelled, 30);
  EXPECT_LT(poisoned, 100);
}

}  // namespace
}  // namespace baton
