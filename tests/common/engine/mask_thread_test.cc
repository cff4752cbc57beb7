#include "common/engine/mask_thread.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

#include "common/base/token_mask.h"
#include "tests/common/grammar/tiny_grammars.h"

namespace baton {
namespace {

// Counts the jobs that are done. While it is closed, the mask thread waits in its next one.
class Bell {
 public:
  explicit Bell(bool open = true) : open_(open) {}
  void Ring() {
    const absl::MutexLock lock(&mutex_);
    ++rung_;
    mutex_.Await(absl::Condition(&open_));
  }
  void WaitFor(int count) {
    const auto rung = [this, count] { return rung_ >= count; };
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&rung));
  }
  void Open() {
    const absl::MutexLock lock(&mutex_);
    open_ = true;
  }

 private:
  absl::Mutex mutex_;
  int rung_ = 0;
  bool open_;
};

std::vector<uint32_t> MaskBehind(GrammarState state, const std::vector<int32_t>& outputs) {
  std::vector<uint32_t> mask(MaskWords(state.vocab_size()));
  EXPECT_TRUE(state.Replay(outputs).ok());
  EXPECT_TRUE(state.FillMask(absl::MakeSpan(mask)).ok());
  return mask;
}

// The next mask behind so many outputs of it takes hours.
GrammarState EndlessState() {
  GrammarState state = TinyGrammar(CostlyGrammar());
  state.SetBudget({.call = absl::InfiniteDuration(), .answer = absl::InfiniteDuration()});
  return state;
}
std::vector<int32_t> EndlessOutputs() { return TinyTokens(std::string(5000, 'a')); }

TEST(MaskThread, MakesTheMaskBehindAllOutputs) {
  Bell bell;
  MaskThread thread([&] { bell.Ring(); });
  const std::vector<int32_t> outputs = TinyTokens("abc-1");
  GrammarState ahead = TinyRegex("[a-f]{3,9}(-[0-9]{2}){1,4}");
  ASSERT_TRUE(ahead.Replay(TinyTokens("ab")).ok());
  const auto job = thread.Ask(ahead, outputs);
  bell.WaitFor(1);
  ASSERT_TRUE(job->done);
  EXPECT_TRUE(job->why.ok()) << job->why;
  EXPECT_EQ(job->mask, MaskBehind(TinyRegex("[a-f]{3,9}(-[0-9]{2}){1,4}"), outputs));
  EXPECT_EQ(job->state.accepted(), outputs.size());
}

TEST(MaskThread, RestoresAStateThatHasStalled) {
  Bell bell;
  MaskThread thread([&] { bell.Ring(); });
  GrammarState state = TinyGrammar(CostlyGrammar());
  state.SetBudget({.at_once = absl::ZeroDuration()});
  std::vector<int32_t> outputs;
  while (!state.stalled()) {
    outputs.push_back(TinyTokens("a")[0]);
    const bool accepted = state.Accept(outputs.back()).ok();
    ASSERT_NE(accepted, state.stalled());
  }
  const auto job = thread.Ask(std::move(state), outputs);
  bell.WaitFor(1);
  EXPECT_TRUE(job->why.ok()) << job->why;
  EXPECT_EQ(job->mask, MaskBehind(TinyGrammar(CostlyGrammar()), outputs));
}

TEST(MaskThread, TellsWhyThereIsNone) {
  Bell bell;
  MaskThread thread([&] { bell.Ring(); });
  std::vector<int32_t> ended = TinyTokens("a");
  ended.push_back(TinyEnds()[0]);
  const auto job = thread.Ask(TinyRegex("a"), ended);
  bell.WaitFor(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(job->why)) << job->why;
  EXPECT_EQ(job->mask, std::vector<uint32_t>(job->mask.size(), 0));
  const auto other = thread.Ask(TinyRegex("a"), TinyTokens("b"));
  bell.WaitFor(2);
  EXPECT_TRUE(absl::IsInvalidArgument(other->why)) << other->why;
}

TEST(MaskThread, TakesTheFormThatHasSpentLeastFirst) {
  Bell bell(/*open=*/false);
  std::shared_ptr<MaskJob> behind;  // set while the thread waits in the first job
  std::vector<bool> done_behind;    // whether that one is done, after each job
  MaskThread thread([&] {
    done_behind.push_back(behind != nullptr && behind->done);
    bell.Ring();
  });
  const auto first = thread.Ask(TinyRegex("a"), {});
  bell.WaitFor(1);
  GrammarState costly = TinyGrammar(CostlyGrammar());
  const std::vector<int32_t> outputs = TinyTokens(std::string(20, 'a'));
  ASSERT_TRUE(costly.Replay(outputs).ok());
  ASSERT_GT(costly.spent(), absl::ZeroDuration());
  behind = thread.Ask(costly, outputs);
  const auto before = thread.Ask(TinyRegex("a"), {});
  bell.Open();
  bell.WaitFor(3);
  EXPECT_EQ(done_behind, std::vector<bool>({false, false, true}));
}

TEST(MaskThread, BreaksOffWhatNobodyWantsAnyMore) {
  Bell bell;
  MaskThread thread([&] { bell.Ring(); });
  thread.Ask(EndlessState(), EndlessOutputs()).reset();
  bell.WaitFor(1);
}

TEST(MaskThread, BreaksOffWhatRunsWhenItEnds) {
  Bell bell;
  std::shared_ptr<MaskJob> job;
  {
    MaskThread thread([&] { bell.Ring(); });
    job = thread.Ask(EndlessState(), EndlessOutputs());
  }
  EXPECT_FALSE(job->why.ok() && job->done);
}

}  // namespace
}  // namespace baton
