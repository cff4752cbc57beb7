// The token table of a byte-level vocabulary: each token's bytes and kind, and the way back from
// bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/tokenizer/bpe_encoder.h"

namespace baton {

// Numbers as in "tokenizer.ggml.token_type".
enum class TokenKind : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Immutable and thread-safe; movable. The arrays it is made of are not trusted and not kept.
class Vocabulary {
 public:
  static constexpr size_t kMaxTokens = size_t{1} << 20;
  static constexpr size_t kMaxMerges = size_t{1} << 21;

  // `kinds` may be empty (all tokens are normal) or as long as `texts`.
  static absl::StatusOr<Vocabulary> Create(absl::Span<const absl::string_view> texts,
                                           absl::Span<const int64_t> kinds);

  int size() const { return static_cast<int>(kinds_.size()); }
  TokenKind kind(int32_t id) const;
  // The bytes that a token stands for; the literal, where it is special or user-defined. REQUIRES:
  // 0 <= id < size().
  absl::string_view bytes(int32_t id) const;
  // Control or unknown: its literal is never recognised in plain text, and never part of generated
  // text.
  bool IsSpecial(int32_t id) const;
  // The lowest id of the kind unknown: what stands for text that nothing else can.
  std::optional<int32_t> unknown_id() const;
  // The lowest id that plain text with these bytes may become; nothing for special tokens.
  std::optional<int32_t> Find(absl::string_view bytes) const;

  // "left right" pairs of the byte alphabet, by rank. Both and their concatenation must be tokens
  // here.
  absl::StatusOr<std::vector<BpeEncoder::Merge>> ResolveMerges(
      absl::Span<const absl::string_view> merges) const;

 private:
  Vocabulary() = default;

  std::vector<TokenKind> kinds_;
  std::string arena_;              // all tokens' bytes
  std::vector<uint64_t> offsets_;  // [size() + 1] into arena_
  absl::flat_hash_map<std::string, int32_t> id_of_bytes_;
};

}  // namespace baton
