#include "tests/decode_worker/handoff_pair/pair_oracle.h"

#include <algorithm>

#include "gtest/gtest.h"

#include "tests/decode_worker/handoff_pair/pair_memory.h"

namespace baton {

void PairOracle::Sent(const internal::v1::KvDataHeader& header) {
  sent_[header.sequence_number()] = header;
}

void PairOracle::Acknowledged(uint64_t sequence_number) {
  const internal::v1::KvDataHeader& header = sent_.at(sequence_number);
  const int end = static_cast<int>(header.first_token() + header.token_count());
  for (uint32_t layer = 0; layer < header.layer_count(); ++layer) {
    for (int page = static_cast<int>(header.first_token()) / kKvPageTokens; page < KvPages(end);
         ++page) {
      covered_.insert({static_cast<int>(header.first_layer() + layer), page});
    }
  }
}

void PairOracle::BeginCopy(const ReceiveAction::Copy& copy) {
  EXPECT_FALSE(copy.ranges.empty());
  for (const LayerTokens& range : copy.ranges) {
    const int end = range.tokens.end;
    EXPECT_GE(range.tokens.begin, run_.options.cached_by_receiver);
    EXPECT_GE(range.tokens.begin, FirstNeeded(range.layer));
    EXPECT_LE(end, run_.options.tokens);
    for (int page = range.tokens.begin / kKvPageTokens; page < KvPages(end); ++page) {
      EXPECT_TRUE(in_copy_.insert({range.layer, page}).second) << "two copies into one page";
      EXPECT_EQ(covered_.count({range.layer, page}), 0u) << "a copy into a covered page";
    }
  }
}

void PairOracle::EndCopy(const ReceiveAction::Copy& copy) {
  for (const LayerTokens& range : copy.ranges) {
    const int end = KvPages(range.tokens.end);
    for (int page = range.tokens.begin / kKvPageTokens; page < end; ++page) {
      EXPECT_EQ(in_copy_.erase({range.layer, page}), 1u);
    }
  }
}

// The first token of the layer that the receiver has to have, as the protocol says it.
int PairOracle::FirstNeeded(int layer) const {
  const PairOptions& options = run_.options;
  const int window = options.windows.empty() ? 0 : options.windows[static_cast<size_t>(layer)];
  if (window == 0) return 0;
  const int seen = std::max(0, options.tokens - 64 - window + 1);
  return seen - seen % kKvPageTokens;
}

bool PairOracle::PageIsRight(int layer, int page) const {
  const int first = page * kKvPageTokens;
  const int end = std::min(first + kKvPageTokens, run_.options.tokens);
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    for (int token = first; token < end; ++token) {
      const uint8_t* row = blocks_.Row(layer, part, token);
      for (size_t i = 0; i < blocks_.layout.row_bytes(); ++i) {
        if (row[i] != PairByte(layer, part, token, i)) return false;
      }
    }
  }
  return true;
}

void PairOracle::CheckCovered() const {
  for (const auto& [layer, page] : covered_) {
    ASSERT_TRUE(PageIsRight(layer, page))
        << "layer " << layer << " page " << page << " seed " << run_.options.seed;
  }
  const size_t block_bytes = blocks_.layout.block_bytes();
  const std::set<int32_t> ours(blocks_.block_table.begin(), blocks_.block_table.end());
  for (int32_t block = 0; block < PairMemory::kPool; ++block) {
    if (ours.count(block) > 0) continue;
    const uint8_t* first = blocks_.base + static_cast<size_t>(block) * block_bytes;
    ASSERT_TRUE(std::all_of(first, first + block_bytes, [](uint8_t byte) {
      return byte == PairMemory::kCanary;
    })) << "a write into somebody else's block";
  }
}

void PairOracle::CheckSequence() const {
  for (int layer = 0; layer < blocks_.layout.layers; ++layer) {
    for (int page = FirstNeeded(layer) / kKvPageTokens; page < KvPages(run_.options.tokens);
         ++page) {
      EXPECT_TRUE(PageIsRight(layer, page)) << "committed a wrong page";
    }
  }
}

}  // namespace baton
