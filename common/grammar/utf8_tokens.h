// Finds tokens that no UTF-8 text contains, or that cannot follow a given text. XGrammar's automata
// are of bytes, and let through some that are no UTF-8: halves of UTF-16 pairs (ED A0..BF), and, by
// an expression, characters in more bytes than they need (E0 80..9F, F0 80..8F).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

// Whether no UTF-8 text has these bytes, at whatever place of a character they begin and end. A
// pure function.
bool IsBrokenUtf8(absl::string_view bytes);

// Some KB: the few tokens of a vocabulary that begin or end within a character.
// Immutable and thread-safe. It does not look whether characters are whole, which a grammar sees
// to.
//
// Behind most first bytes of a character any byte from 80 to BF may come, but behind E0 only A0 to
// BF, behind ED 80 to 9F, behind F0 90 to BF, and behind F4 80 to 8F; C0, C1 and F5 to FF come
// nowhere (The Unicode Standard, table 3-7). UTF-8 has these four bytes at the beginning of a
// character alone, so a text's last byte determines what may follow.
class Utf8Tokens {
 public:
  // `texts` are the bytes of each token by its id; those that begin with kSpecialTokenByte are of
  // special tokens, and no text.
  explicit Utf8Tokens(const std::vector<std::string>& texts);

  // The last byte of a token's text if it is one of the four; otherwise 0.
  static char OpenByte(absl::string_view text);

  // The following take as `open` the OpenByte of the text so far.

  // Whether the token may not come next. It is about the bytes that are there: see ending_open.
  bool IsForbidden(char open, int32_t token) const;
  // Takes the tokens that may not come next out of the mask of all tokens.
  void RemoveForbidden(char open, absl::Span<uint32_t> mask) const;
  // Texts of the tokens that may come next and leave no byte open, the shortest first. REQUIRES:
  // `open` is not 0.
  absl::Span<const std::string> Next(char open) const;

  // The tokens that leave a byte open, ascending. A grammar may allow one of these where it allows
  // nothing that may come behind it.
  absl::Span<const int32_t> ending_open() const { return ending_open_; }

 private:
  static constexpr size_t kOpenBytes = 4;
  static size_t IndexOf(char open);

  std::vector<int32_t> broken_;  // what no text has, ascending
  std::vector<int32_t> ending_open_;
  // Behind each of the four bytes:
  std::array<std::vector<int32_t>, kOpenBytes> forbidden_;  // ascending
  std::array<std::vector<std::string>, kOpenBytes> next_;
};

}  // namespace baton
