// What must hold of the receiver's memory at every moment.
#include <algorithm>

#include "gtest/gtest.h"

#include "tests/decode_worker/handoff_pair.h"

namespace baton {

// The row of a token is a function of the token and its place, so a misplaced row is seen.
uint8_t HandoffPair::ExpectedByte(int layer, int part, int token, size_t byte) {
  uint64_t x = static_cast<uint64_t>(((layer * 2 + part) * 100003 + token) * 64) + byte;
  x = (x ^ (x >> 7)) * 0x9E3779B97F4A7C15ULL;
  return static_cast<uint8_t>(x >> 56);
}

void HandoffPair::CheckCopy(const ReceiveAction::Copy& copy) {
  EXPECT_TRUE(granted_);
  EXPECT_FALSE(committed_ || receiver_released_) << "a copy into blocks of somebody else";
  EXPECT_FALSE(copy.ranges.empty());
  for (const LayerTokens& range : copy.ranges) {
    const int end = range.tokens.end;
    EXPECT_GE(range.tokens.begin, options_.cached_by_receiver);
    EXPECT_LE(end, options_.tokens);
    for (int page = range.tokens.begin / kKvPageTokens; page < KvPages(end); ++page) {
      EXPECT_TRUE(in_copy_.insert({range.layer, page}).second) << "two copies into one page";
      EXPECT_EQ(covered_.count({range.layer, page}), 0u) << "a copy into a covered page";
    }
  }
  copies_.push_back(copy);
}

void HandoffPair::CheckCopyDone(const ReceiveAction::Copy& copy) {
  for (const LayerTokens& range : copy.ranges) {
    const int end = KvPages(range.tokens.end);
    for (int page = range.tokens.begin / kKvPageTokens; page < end; ++page) {
      EXPECT_EQ(in_copy_.erase({range.layer, page}), 1u);
    }
  }
}

bool HandoffPair::PageIsRight(int layer, int page) const {
  const int first = page * kKvPageTokens;
  const int end = std::min(first + kKvPageTokens, options_.tokens);
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    for (int token = first; token < end; ++token) {
      const uint8_t* row = receiver_blocks_.Row(layer, part, token);
      for (size_t i = 0; i < receiver_blocks_.layout.row_bytes(); ++i) {
        if (row[i] != ExpectedByte(layer, part, token, i)) return false;
      }
    }
  }
  return true;
}

void HandoffPair::CheckCovered() {
  for (const auto& [layer, page] : covered_) {
    ASSERT_TRUE(PageIsRight(layer, page))
        << "layer " << layer << " page " << page << " seed " << options_.seed;
  }
  const size_t block_bytes = receiver_blocks_.layout.block_bytes();
  const std::set<int32_t> ours(receiver_blocks_.block_table.begin(),
                               receiver_blocks_.block_table.end());
  for (int32_t block = 0; block < kPool; ++block) {
    if (ours.count(block) > 0) continue;
    const uint8_t* first = receiver_blocks_.base + static_cast<size_t>(block) * block_bytes;
    ASSERT_TRUE(std::all_of(first, first + block_bytes, [](uint8_t b) { return b == kCanary; }))
        << "a write into somebody else's block";
  }
}

void HandoffPair::CheckSequence() {
  EXPECT_FALSE(committed_ || receiver_released_);
  committed_ = true;
  for (int layer = 0; layer < receiver_blocks_.layout.layers; ++layer) {
    for (int page = options_.cached_by_receiver / kKvPageTokens; page < KvPages(options_.tokens);
         ++page) {
      EXPECT_TRUE(PageIsRight(layer, page)) << "committed a wrong page";
    }
  }
}

}  // namespace baton
