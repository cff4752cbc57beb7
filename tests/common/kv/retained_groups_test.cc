// What broken hand-offs leave where layers have windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/layout.h"
#include "common/kv/retained_prefixes.h"
#include "tests/common/kv/prefix_rows.h"

namespace baton {
namespace {

using Block = BlockPool::Block;
using Match = RetainedPrefixes::Match;

std::vector<int32_t> CountedTokens(int count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

// A broken hand-off and the rules by which its KV serves, token by token.
class BrokenHandOff {
 public:
  BrokenHandOff(const std::vector<int>& windows, int blocks) : pool_(blocks) {
    layout_.groups = KvLayerGroups(windows);
    retained_.emplace(layout_, RetainedPrefixes::Bounds{}, pool_);
  }

  // Breaks a hand-off of `handed_off` tokens after the first `tokens` came. Other sequences own the
  // rows before `first_row`.
  void Break(int handed_off, int tokens, size_t first_row) {
    handed_off_ = handed_off;
    first_row_ = first_row;
    std::vector<Block> blocks;
    const int rows = layout_.BlocksFor(handed_off);
    for (int row = 0; row < rows; ++row) {
      for (int group = 0; group < layout_.groups.count(); ++group) {
        const int first = layout_.groups.FirstHandedOff(group, handed_off);
        const bool is_there = group == 0 || (row + 1) * kRowTokens > first;
        blocks.push_back(is_there ? *pool_.TryAllocate() : Block());
        lives_.push_back(is_there ? std::optional(pool_.Ref(blocks.back().id())) : std::nullopt);
      }
    }
    tokens_ = tokens - tokens % kKvPageTokens;
    retained_->Retain("a",
                      {.token_ids = CountedTokens(tokens_),
                       .numerics = "",
                       .first_block = first_row,
                       .handed_off = handed_off},
                      blocks, absl::UnixEpoch());
    while (!blocks.empty()) blocks.pop_back();
    pool_.CheckInvariants();
  }
  void Evict(int blocks) {
    while (blocks-- > 0) taken_.push_back(*pool_.TryAllocate());
  }
  Match Find(int tokens, size_t shared_rows, const KvNeed& need) const {
    return retained_->Find("a", "", CountedTokens(tokens), shared_rows, need);
  }
  // What Find has to return, from the definition.
  Match Expected(int tokens, size_t shared_rows, const KvNeed& need) const {
    Match match;
    if (shared_rows < first_row_ || first_row_ >= Rows(tokens_)) return match;
    const int begin = static_cast<int>(shared_rows) * kRowTokens;
    int end = std::min(tokens_, tokens - 1);
    for (end -= end % kKvPageTokens; end > begin && !Serves(begin, end, need);) {
      end -= kKvPageTokens;
    }
    if (end <= begin) return match;
    match.tokens = end;
    for (size_t row = shared_rows; row < Rows(end); ++row) {
      for (int group = 0; group < layout_.groups.count(); ++group) {
        const int first = layout_.groups.FirstNeeded(group, need, end);
        const bool is_read = group == 0 || std::min(static_cast<int>(row + 1) * kRowTokens, end) >
                                               std::max(first, begin);
        match.blocks.push_back(is_read ? Life(row, group)->id : kNoBlock);
      }
    }
    return match;
  }
  void ForgetAndCheck() {
    retained_->ForgetAll();
    taken_.clear();
    pool_.CheckInvariants();
    EXPECT_EQ(pool_.kept_blocks(), 0);
    EXPECT_EQ(pool_.free_blocks(), pool_.total_blocks());
  }

 private:
  static size_t Rows(int tokens) { return static_cast<size_t>((tokens + 31) / kRowTokens); }
  const std::optional<BlockRef>& Life(size_t row, int group) const {
    return lives_[row * static_cast<size_t>(layout_.groups.count()) + static_cast<size_t>(group)];
  }
  bool Serves(int begin, int end, const KvNeed& need) const {
    for (int group = 0; group < layout_.groups.count(); ++group) {
      const int first = layout_.groups.FirstNeeded(group, need, end);
      for (int token = begin; token < end; ++token) {
        if (group > 0 && token < first) continue;
        const auto& life = Life(static_cast<size_t>(token / kRowTokens), group);
        if (!life.has_value() || !pool_.Lives(*life)) return false;
        if (token >= first && token < layout_.groups.FirstHandedOff(group, handed_off_)) {
          return false;
        }
      }
    }
    return true;
  }

  KvLayout layout_{.block_size = kRowTokens};
  BlockPool pool_;
  std::optional<RetainedPrefixes> retained_;
  int handed_off_ = 0;
  int tokens_ = 0;
  size_t first_row_ = 0;
  std::vector<std::optional<BlockRef>> lives_;  // [rows][groups]
  std::vector<Block> taken_;
};

TEST(RetainedGroups, ServeTheNextAttemptFromWhereTheWindowsOfItsHandOffBegin) {
  BrokenHandOff hand_off({0, 40}, 40);
  hand_off.Break(200, 176, 0);  // the layers with a window came from token 96 on
  const Match match = hand_off.Find(200, 0, {.handed_off = 200});
  EXPECT_EQ(match.tokens, 176);
  EXPECT_THAT(match.blocks, testing::SizeIs(12));
  for (size_t row = 0; row < 6; ++row) EXPECT_EQ(match.blocks[2 * row + 1] < 0, row < 3) << row;
  EXPECT_EQ(hand_off.Find(190, 0, {.handed_off = 190}).tokens, 80)
      << "a shorter hand-off reads what did not come, so it begins there";
  EXPECT_EQ(hand_off.Find(200, 0, {.computes = true}).tokens, 176);
  EXPECT_EQ(hand_off.Find(130, 0, {.computes = true}).tokens, 0)
      << "the window of token 128 begins before what came";
}

TEST(RetainedGroups, ServeExactlyWhatTheDefinitionSays) {
  const std::vector<std::vector<int>> models = {{0},        {0, 40},  {40, 0, 100},
                                                {0, 0, 24}, {33, 90}, {50}};
  std::mt19937_64 random(1);
  const auto pick = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<uint64_t>(most - least + 1));
  };
  int matches = 0, partial = 0;
  for (int round = 0; round < 3000; ++round) {
    BrokenHandOff hand_off(models[random() % models.size()], 40);
    const int handed_off = pick(20, 300);
    const int tokens = pick(0, handed_off);
    hand_off.Break(handed_off, tokens, random() % 2 == 0 ? 0 : random() % 4);
    if (pick(0, 2) > 0) hand_off.Evict(pick(1, 39));
    for (int probe = 0; probe < 4; ++probe) {
      const int next = pick(0, 3) == 0 ? pick(1, 320) : handed_off + pick(0, 8);
      KvNeed need{.computes = pick(0, 1) == 0};
      if (!need.computes || pick(0, 1) == 0) need.handed_off = next;
      const size_t shared = random() % 5;
      const Match match = hand_off.Find(next, shared, need);
      const Match expected = hand_off.Expected(next, shared, need);
      ASSERT_EQ(match.tokens, expected.tokens) << "round " << round;
      ASSERT_EQ(match.blocks, expected.blocks) << "round " << round;
      matches += match.tokens > 0 ? 1 : 0;
      partial += match.tokens > 0 && match.tokens < tokens - kKvPageTokens ? 1 : 0;
    }
    hand_off.ForgetAndCheck();
  }
  EXPECT_GT(matches, 2000);
  EXPECT_GT(partial, 200);
}

}  // namespace
}  // namespace baton
