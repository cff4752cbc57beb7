#include "common/tokenizer/spm_encoder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace baton {
namespace {

constexpr uint32_t kNoSymbol = std::numeric_limits<uint32_t>::max();
constexpr int kSizeBits = 12;
constexpr int kRankShift = 32 + kSizeBits;
constexpr size_t kMaxSpmTextBytes = size_t{1} << 30;
static_assert(SpmEncoder::kMaxPieceBytes < size_t{1} << kSizeBits);
static_assert(Vocabulary::kMaxTokens <= size_t{1} << (64 - kRankShift));

// `text` as the vocabulary writes it: a space for each U+2581, and one in front if `prefixed`.
std::string WithPlainSpaces(absl::string_view text, bool prefixed) {
  std::string plain(prefixed ? " " : "");
  plain.reserve(text.size() + 1);
  while (!text.empty()) {
    const bool is_space = absl::ConsumePrefix(&text, kSentencePieceSpace);
    plain.push_back(is_space ? ' ' : text[0]);
    if (!is_space) text.remove_prefix(1);
  }
  return plain;
}

// Where in `text` the byte is that `offset` in WithPlainSpaces(text, prefixed) names.
size_t OffsetBefore(absl::string_view text, bool prefixed, size_t offset) {
  size_t before = 0;
  for (size_t plain = prefixed ? 1 : 0; plain < offset; ++plain) {
    const bool is_space = absl::StartsWith(text.substr(before), kSentencePieceSpace);
    before += is_space ? kSentencePieceSpace.size() : 1;
  }
  return before;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpmEncoder>> SpmEncoder::Create(const Vocabulary& vocabulary,
                                                               absl::Span<const float> scores,
                                                               bool add_space_prefix) {
  const auto size = static_cast<size_t>(vocabulary.size());
  if (scores.size() != size) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.scores has ", scores.size(),
                                                   " entries, but tokenizer.ggml.tokens has ",
                                                   size));
  }
  std::unique_ptr<SpmEncoder> encoder(new SpmEncoder(vocabulary, add_space_prefix));
  for (size_t id = 0; id < size; ++id) {
    if (!std::isfinite(scores[id])) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.scores[", id, "] is not a finite number"));
    }
    const absl::string_view piece = vocabulary.bytes(static_cast<int32_t>(id));
    if (!vocabulary.Find(piece).has_value()) continue;
    if (piece.size() > kMaxPieceBytes) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.tokens[", id, "] has ",
                                                     piece.size(), " bytes; at most ",
                                                     kMaxPieceBytes, " are supported"));
    }
    encoder->longest_piece_bytes_ = std::max(encoder->longest_piece_bytes_, piece.size());
  }
  std::vector<float> distinct(scores.begin(), scores.end());
  std::sort(distinct.begin(), distinct.end(), std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  encoder->rank_of_id_.reserve(size);
  for (const float score : scores) {
    const auto found = std::lower_bound(distinct.begin(), distinct.end(), score, std::greater<>());
    encoder->rank_of_id_.push_back(static_cast<uint32_t>(found - distinct.begin()));
  }
  return encoder;
}

void SpmEncoder::Encode(const PlainText& plain, EncodedText& encoded) const {
  BATON_CHECK(plain.text.size() < kMaxSpmTextBytes, "text of a gibibyte or more");
  const bool prefixed = plain.begins && add_space_prefix_;
  Work work;
  work.text = WithPlainSpaces(plain.text, prefixed);
  for (size_t begin = 0; begin < work.text.size();) {
    const Utf8Unit unit = NextUtf8Unit(absl::string_view(work.text).substr(begin));
    const auto index = static_cast<uint32_t>(work.symbols.size());
    work.symbols.push_back({.begin = static_cast<uint32_t>(begin),
                            .size = static_cast<uint32_t>(unit.size),
                            .next = index + 1,
                            .previous = index > 0 ? index - 1 : kNoSymbol});
    begin += unit.size;
  }
  work.symbols.back().next = kNoSymbol;
  MergeAll(work);
  for (uint32_t i = 0; i != kNoSymbol; i = work.symbols[i].next) {
    AppendIds(work, work.symbols[i], plain, prefixed, encoded);
  }
}

void SpmEncoder::MergeAll(Work& work) const {
  std::vector<Symbol>& symbols = work.symbols;
  for (uint32_t i = 0; i < symbols.size(); ++i) AddCandidate(i, work);
  while (!work.candidates.empty()) {
    std::pop_heap(work.candidates.begin(), work.candidates.end(), std::greater<>());
    const uint64_t candidate = work.candidates.back();
    work.candidates.pop_back();
    const auto left = static_cast<uint32_t>(candidate >> kSizeBits);
    const uint64_t joined = candidate & ((uint64_t{1} << kSizeBits) - 1);
    Symbol& symbol = symbols[left];
    // Symbols only grow, so if the bytes still add up, it is the pair that was found.
    if (symbol.size == 0 || symbol.next == kNoSymbol) continue;
    Symbol& taken = symbols[symbol.next];
    if (symbol.size + taken.size != joined) continue;
    symbol.size += taken.size;
    symbol.next = taken.next;
    taken.size = 0;
    if (symbol.next != kNoSymbol) symbols[symbol.next].previous = left;
    AddCandidate(left, work);
    if (symbol.previous != kNoSymbol) AddCandidate(symbol.previous, work);
  }
}

void SpmEncoder::AddCandidate(uint32_t left, Work& work) const {
  const Symbol& symbol = work.symbols[left];
  if (symbol.next == kNoSymbol) return;
  const size_t joined = symbol.size + work.symbols[symbol.next].size;
  if (joined > longest_piece_bytes_) return;
  const std::optional<int32_t> id =
      vocabulary_.Find(absl::string_view(work.text).substr(symbol.begin, joined));
  if (!id.has_value()) return;
  const uint64_t rank = rank_of_id_[static_cast<size_t>(*id)];
  work.candidates.push_back(rank << kRankShift | uint64_t{left} << kSizeBits | joined);
  std::push_heap(work.candidates.begin(), work.candidates.end(), std::greater<>());
}

void SpmEncoder::AppendIds(const Work& work, const Symbol& symbol, const PlainText& plain,
                           bool prefixed, EncodedText& encoded) const {
  const absl::string_view text = absl::string_view(work.text).substr(symbol.begin, symbol.size);
  if (const std::optional<int32_t> id = vocabulary_.Find(text); id.has_value()) {
    encoded.ids.push_back(*id);
    return;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    std::optional<int32_t> id = vocabulary_.byte_piece(byte);
    if (!id.has_value()) id = vocabulary_.unknown_id();
    if (id.has_value()) {
      encoded.ids.push_back(*id);
    } else if (!encoded.first_left_out.has_value()) {
      encoded.first_left_out = {
          .offset = plain.offset + OffsetBefore(plain.text, prefixed, symbol.begin + i),
          .byte = byte};
    }
  }
}

}  // namespace baton
