#include "common/tokenizer/vocabulary.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/tokenizer/byte_alphabet.h"

namespace baton {
namespace {

constexpr int64_t kHighestKind = 6;

// An excerpt of untrusted text, quoted for an error.
std::string Quoted(absl::string_view text) {
  constexpr size_t kMaxShown = 40;
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text.substr(0, kMaxShown)),
                      text.size() > kMaxShown ? "...\"" : "\"");
}

bool IsWrittenAsIs(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown ||
         kind == TokenKind::kUserDefined;
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Create(absl::Span<const absl::string_view> texts,
                                              absl::Span<const int64_t> kinds) {
  if (texts.empty() || texts.size() > kMaxTokens) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.tokens has ", texts.size(),
                                                   " entries; 1 to ", kMaxTokens,
                                                   " are supported"));
  }
  if (!kinds.empty() && kinds.size() != texts.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.token_type has ", kinds.size(),
                                                   " entries, but tokenizer.ggml.tokens has ",
                                                   texts.size()));
  }
  Vocabulary vocabulary;
  vocabulary.kinds_.reserve(texts.size());
  vocabulary.offsets_.reserve(texts.size() + 1);
  vocabulary.offsets_.push_back(0);
  vocabulary.id_of_bytes_.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t number = kinds.empty() ? int64_t{1} : kinds[i];
    if (number < 0 || number > kHighestKind) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tokenizer.ggml.token_type[", i, "] is ", number, "; 0 to ", kHighestKind, " are known"));
    }
    const auto kind = static_cast<TokenKind>(number);
    const auto id = static_cast<int32_t>(i);
    vocabulary.kinds_.push_back(kind);
    // A token with characters outside the alphabet, such as padding, stands for its own text, and
    // no text is encoded to it.
    const std::optional<std::string> decoded =
        IsWrittenAsIs(kind) ? std::nullopt : BytesFromAlphabet(texts[i]);
    const absl::string_view bytes = decoded.has_value() ? absl::string_view(*decoded) : texts[i];
    vocabulary.arena_.append(bytes.data(), bytes.size());
    vocabulary.offsets_.push_back(vocabulary.arena_.size());
    const bool reachable = decoded.has_value() || kind == TokenKind::kUserDefined;
    if (reachable && !bytes.empty()) vocabulary.id_of_bytes_.try_emplace(bytes, id);
  }
  return vocabulary;
}

TokenKind Vocabulary::kind(int32_t id) const {
  BATON_CHECK(id >= 0 && id < size(), "token id outside the vocabulary");
  return kinds_[static_cast<size_t>(id)];
}

absl::string_view Vocabulary::bytes(int32_t id) const {
  BATON_CHECK(id >= 0 && id < size(), "token id outside the vocabulary");
  const uint64_t begin = offsets_[static_cast<size_t>(id)];
  const uint64_t end = offsets_[static_cast<size_t>(id) + 1];
  return absl::string_view(arena_).substr(begin, end - begin);
}

bool Vocabulary::IsSpecial(int32_t id) const {
  return kind(id) == TokenKind::kControl || kind(id) == TokenKind::kUnknown;
}

std::optional<int32_t> Vocabulary::unknown_id() const {
  const auto found = std::find(kinds_.begin(), kinds_.end(), TokenKind::kUnknown);
  if (found == kinds_.end()) return std::nullopt;
  return static_cast<int32_t>(found - kinds_.begin());
}

std::optional<int32_t> Vocabulary::Find(absl::string_view bytes) const {
  const auto found = id_of_bytes_.find(bytes);
  if (found == id_of_bytes_.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<std::vector<BpeEncoder::Merge>> Vocabulary::ResolveMerges(
    absl::Span<const absl::string_view> merges) const {
  if (merges.size() > kMaxMerges) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.merges has ", merges.size(),
                                                   " entries; at most ", kMaxMerges,
                                                   " are supported"));
  }
  std::vector<BpeEncoder::Merge> resolved;
  resolved.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const absl::string_view merge = merges[rank];
    const auto error = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.merges[", rank, "] ", Quoted(merge), " ", why));
    };
    const size_t space = merge.find(' ');
    if (space == absl::string_view::npos || space == 0 || space + 1 == merge.size()) {
      return error("is not two tokens with a space between them");
    }
    const std::optional<std::string> left = BytesFromAlphabet(merge.substr(0, space));
    const std::optional<std::string> right = BytesFromAlphabet(merge.substr(space + 1));
    if (!left || !right) return error("has characters outside the byte alphabet");
    const std::optional<int32_t> left_id = Find(*left);
    const std::optional<int32_t> right_id = Find(*right);
    const std::optional<int32_t> merged_id = Find(*left + *right);
    if (!left_id || !right_id) return error("joins what is not a token of plain text");
    if (!merged_id) return error("makes what is not a token of plain text");
    resolved.push_back({.left = *left_id, .right = *right_id, .merged = *merged_id});
  }
  return resolved;
}

}  // namespace baton
