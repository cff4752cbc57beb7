// The token table of a vocabulary: each token's bytes and kind, and the token of given bytes.
#pragma once

#include <array>
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

// The kind of a token. The numbers are those of "tokenizer.ggml.token_type".
enum class TokenKind : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// U+2581, SentencePiece's sign for a space.
inline constexpr absl::string_view kSentencePieceSpace = "\xE2\x96\x81";

// Immutable and thread-safe; movable. It validates the arrays that it is made of and keeps none.
class Vocabulary {
 public:
  static constexpr size_t kMaxTokens = size_t{1} << 20;
  static constexpr size_t kMaxMerges = size_t{1} << 21;

  // How tokens that are neither special nor user-defined are written.
  enum class Spelling {
    kByteAlphabet,   // each byte as a character (byte_alphabet.h)
    kSentencePiece,  // U+2581 for a space; "<0x0A>" for a token of the kind byte
  };

  // Makes a vocabulary of the tokens `texts`. `kinds` is empty (all tokens are normal) or as long
  // as `texts`. INVALID_ARGUMENT names the array and the token.
  static absl::StatusOr<Vocabulary> Create(absl::Span<const absl::string_view> texts,
                                           absl::Span<const int64_t> kinds,
                                           Spelling spelling = Spelling::kByteAlphabet);

  int size() const { return static_cast<int>(kinds_.size()); }
  TokenKind kind(int32_t id) const;
  // The bytes that a token stands for; for a special or user-defined token its literal. REQUIRES:
  // 0 <= id < size().
  absl::string_view bytes(int32_t id) const;
  // Whether a token is of the kind control or unknown. Its literal is never recognised in plain
  // text and never part of generated text.
  bool IsSpecial(int32_t id) const;
  // The lowest id of the kind unknown, which stands for bytes without a token.
  std::optional<int32_t> unknown_id() const { return unknown_id_; }
  // The lowest id of the kind byte that stands for `byte`, in SentencePiece's spelling.
  std::optional<int32_t> byte_piece(uint8_t byte) const;
  // The lowest id that plain text with these bytes may become; never that of a special token, and
  // in SentencePiece's spelling none of the kinds user-defined and byte.
  std::optional<int32_t> Find(absl::string_view bytes) const;

  // The merge of two tokens as they are written. nullopt if either of them or what they make is not
  // a token of plain text.
  std::optional<BpeEncoder::Merge> ResolveMerge(absl::string_view left,
                                                absl::string_view right) const;
  // Resolves merges, which are pairs "left right" in the byte alphabet, ordered by rank. An error
  // if either token or their concatenation is not in the vocabulary.
  absl::StatusOr<std::vector<BpeEncoder::Merge>> ResolveMerges(
      absl::Span<const absl::string_view> merges) const;

 private:
  static constexpr int32_t kNone = -1;
  explicit Vocabulary(Spelling spelling) : spelling_(spelling) { byte_pieces_.fill(kNone); }
  absl::Status Add(absl::string_view text, int64_t kind);
  // The bytes of a token of plain text that is written as `text`.
  std::optional<std::string> BytesOf(absl::string_view text) const;

  Spelling spelling_;
  std::vector<TokenKind> kinds_;
  std::string arena_;              // the bytes of all tokens, one after the other
  std::vector<uint64_t> offsets_;  // [size() + 1] offsets into arena_
  absl::flat_hash_map<std::string, int32_t> id_of_bytes_;
  std::array<int32_t, 256> byte_pieces_;  // [byte] kNone: there is none
  std::optional<int32_t> unknown_id_;
};

}  // namespace baton
