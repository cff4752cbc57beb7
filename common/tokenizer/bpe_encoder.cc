#include "common/tokenizer/bpe_encoder.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr size_t kMaxPieceBytes = size_t{1} << 30;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();  // no neighbour: end of the list
constexpr int32_t kMergedAway = -2;  // id of a symbol that was merged into its left neighbour

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

void Append(int32_t id, std::vector<BpeEncoder::Symbol>& symbols) {
  const auto index = static_cast<uint32_t>(symbols.size());
  symbols.push_back({.id = id, .next = index + 1, .previous = index > 0 ? index - 1 : kNone});
}

}  // namespace

BpeEncoder::BpeEncoder(const std::array<int32_t, 256>& byte_ids, std::vector<Merge> merges)
    : byte_ids_(byte_ids), merges_(std::move(merges)) {
  BATON_CHECK(merges_.size() < kNone, "merges must be fewer than kNone", merges_.size());
  rank_of_pair_.reserve(merges_.size());
  for (uint32_t rank = 0; rank < merges_.size(); ++rank) {
    rank_of_pair_.try_emplace(PairKey(merges_[rank].left, merges_[rank].right), rank);
  }
}

BpeEncoder::BpeEncoder(std::vector<Merge> merges)
    : BpeEncoder(
          [] {
            std::array<int32_t, 256> none;
            none.fill(kNoToken);
            return none;
          }(),
          std::move(merges)) {}

std::optional<size_t> BpeEncoder::Encode(absl::string_view piece, Scratch& scratch,
                                         std::vector<int32_t>& ids) const {
  BATON_CHECK(piece.size() < kMaxPieceBytes, "piece of a gibibyte or more");
  scratch.symbols.clear();
  std::optional<size_t> first_left_out;
  for (size_t i = 0; i < piece.size(); ++i) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(piece[i])];
    if (id != kNoToken) {
      Append(id, scratch.symbols);
    } else if (!first_left_out.has_value()) {
      first_left_out = i;
    }
  }
  MergeAll(scratch, ids);
  return first_left_out;
}

void BpeEncoder::EncodeSymbols(absl::Span<const int32_t> symbols, Scratch& scratch,
                               std::vector<int32_t>& ids) const {
  BATON_CHECK(symbols.size() < kMaxPieceBytes, "symbols must be fewer than kMaxPieceBytes",
              symbols.size());
  scratch.symbols.clear();
  for (const int32_t id : symbols) Append(id, scratch.symbols);
  MergeAll(scratch, ids);
}

void BpeEncoder::MergeAll(Scratch& scratch, std::vector<int32_t>& ids) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& candidates = scratch.candidates;
  candidates.clear();
  if (symbols.empty()) return;
  symbols.back().next = kNone;
  for (uint32_t i = 0; i < symbols.size(); ++i) AddCandidate(i, scratch);

  while (!candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    const uint64_t candidate = candidates.back();
    candidates.pop_back();
    ++scratch.heap_operations;
    const Merge& merge = merges_[candidate >> 32];
    const auto left = static_cast<uint32_t>(candidate);
    // Candidates may be outdated. Tokens only grow, so if the pair still stands at its place, it is
    // the pair that was found.
    const uint32_t right = symbols[left].next;
    const bool stands = symbols[left].id == merge.left && right != kNone;
    if (stands && symbols[right].id == merge.right) MergeWithNext(left, merge.merged, scratch);
  }
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) ids.push_back(symbols[i].id);
}

void BpeEncoder::AddCandidate(uint32_t left, Scratch& scratch) const {
  const Symbol& symbol = scratch.symbols[left];
  if (symbol.next == kNone) return;
  const auto found = rank_of_pair_.find(PairKey(symbol.id, scratch.symbols[symbol.next].id));
  if (found == rank_of_pair_.end()) return;
  scratch.candidates.push_back(uint64_t{found->second} << 32 | left);
  std::push_heap(scratch.candidates.begin(), scratch.candidates.end(), std::greater<>());
  ++scratch.heap_operations;
}

void BpeEncoder::MergeWithNext(uint32_t left, int32_t merged, Scratch& scratch) const {
  Symbol& symbol = scratch.symbols[left];
  Symbol& taken = scratch.symbols[symbol.next];
  symbol.id = merged;
  symbol.next = taken.next;
  taken.id = kMergedAway;
  if (symbol.next != kNone) scratch.symbols[symbol.next].previous = left;
  AddCandidate(left, scratch);
  if (symbol.previous != kNone) AddCandidate(symbol.previous, scratch);
}

}  // namespace baton
