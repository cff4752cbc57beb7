#include "common/tokenizer/vocabulary.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
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

// The byte of a piece like "<0x0A>".
std::optional<uint8_t> ByteOfPiece(absl::string_view text) {
  uint32_t byte = 0;
  if (text.size() != 6 || !absl::ConsumePrefix(&text, "<0x") || !absl::ConsumeSuffix(&text, ">") ||
      !absl::SimpleHexAtoi(text, &byte) || byte > 0xFF) {
    return std::nullopt;
  }
  return static_cast<uint8_t>(byte);
}

bool IsWrittenAsIs(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown ||
         kind == TokenKind::kUserDefined;
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Create(absl::Span<const absl::string_view> texts,
                                              absl::Span<const int64_t> kinds, Spelling spelling) {
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
  Vocabulary vocabulary(spelling);
  vocabulary.kinds_.reserve(texts.size());
  vocabulary.offsets_.reserve(texts.size() + 1);
  vocabulary.offsets_.push_back(0);
  vocabulary.id_of_bytes_.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    BATON_RETURN_IF_ERROR(vocabulary.Add(texts[i], kinds.empty() ? 1 : kinds[i]));
  }
  return vocabulary;
}

absl::Status Vocabulary::Add(absl::string_view text, int64_t number) {
  const int32_t id = size();
  if (number < 0 || number > kHighestKind) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.token_type[", id, "] is ",
                                                   number, "; 0 to ", kHighestKind, " are known"));
  }
  const auto kind = static_cast<TokenKind>(number);
  kinds_.push_back(kind);
  if (kind == TokenKind::kUnknown && !unknown_id_.has_value()) unknown_id_ = id;
  std::optional<std::string> decoded;
  bool reachable = false;
  if (spelling_ == Spelling::kByteAlphabet) {
    // A token with characters outside the alphabet, such as padding, stands for its own text, and
    // no text is encoded to it.
    if (!IsWrittenAsIs(kind)) decoded = BytesFromAlphabet(text);
    reachable = decoded.has_value() || kind == TokenKind::kUserDefined;
  } else if (kind == TokenKind::kByte) {
    const std::optional<uint8_t> byte = ByteOfPiece(text);
    if (!byte.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.tokens[", id, "] ", Quoted(text),
                       " has the type byte, but is not written like <0x0A>"));
    }
    decoded = std::string(1, static_cast<char>(*byte));
    if (byte_pieces_[*byte] == kNone) byte_pieces_[*byte] = id;
  } else if (!IsWrittenAsIs(kind)) {
    // A plain space stands for itself, but text has none: U+2581 takes their place.
    decoded = absl::StrReplaceAll(text, {{kSentencePieceSpace, " "}});
    reachable = !absl::StrContains(text, ' ');
  }
  const absl::string_view bytes = decoded.has_value() ? absl::string_view(*decoded) : text;
  arena_.append(bytes.data(), bytes.size());
  offsets_.push_back(arena_.size());
  if (reachable && !bytes.empty()) id_of_bytes_.try_emplace(bytes, id);
  return absl::OkStatus();
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

std::optional<int32_t> Vocabulary::byte_piece(uint8_t byte) const {
  if (byte_pieces_[byte] == kNone) return std::nullopt;
  return byte_pieces_[byte];
}

std::optional<int32_t> Vocabulary::Find(absl::string_view bytes) const {
  const auto found = id_of_bytes_.find(bytes);
  if (found == id_of_bytes_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> Vocabulary::BytesOf(absl::string_view text) const {
  if (spelling_ == Spelling::kByteAlphabet) return BytesFromAlphabet(text);
  if (absl::StrContains(text, ' ')) return std::nullopt;
  return absl::StrReplaceAll(text, {{kSentencePieceSpace, " "}});
}

std::optional<BpeEncoder::Merge> Vocabulary::ResolveMerge(absl::string_view left,
                                                          absl::string_view right) const {
  const std::optional<std::string> left_bytes = BytesOf(left);
  const std::optional<std::string> right_bytes = BytesOf(right);
  if (!left_bytes.has_value() || !right_bytes.has_value()) return std::nullopt;
  const std::optional<int32_t> left_id = Find(*left_bytes);
  const std::optional<int32_t> right_id = Find(*right_bytes);
  const std::optional<int32_t> merged_id = Find(*left_bytes + *right_bytes);
  if (!left_id.has_value() || !right_id.has_value() || !merged_id.has_value()) return std::nullopt;
  return BpeEncoder::Merge{.left = *left_id, .right = *right_id, .merged = *merged_id};
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
    if (!left_id || !right_id) return error("joins a text that is not a plain-text token");
    if (!merged_id) return error("makes a text that is not a plain-text token");
    resolved.push_back({.left = *left_id, .right = *right_id, .merged = *merged_id});
  }
  return resolved;
}

}  // namespace baton
