// Makes text from outside harmless on a terminal.
//
// A terminal interprets control characters: they move its cursor, set its title and clipboard, and
// overwrite earlier text. Other characters change the direction of writing or break lines, so that
// a person reads something else than what is there. The functions below replace each such character
// by its JSON escape, such as \u001b, so that JSON stays the same JSON. Replaced are the control
// characters U+0000 to U+001F and U+007F to U+009F, the separators of lines and paragraphs (U+2028,
// U+2029), and the embeddings, overrides and isolates of bidirectional text (U+202A to U+202E,
// U+2066 to U+2069). A byte that is not UTF-8 becomes \u00NN. All other characters stay as they
// are.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// ShownLine cuts texts of more bytes.
inline constexpr size_t kMaxShownLineBytes = 8192;

// Returns `text` as one line: newlines and tabs are escaped too. A text of more than
// kMaxShownLineBytes is cut and ends with "...".
std::string ShownLine(absl::string_view text);

// Returns `text` with its newlines and tabs. "\r\n" becomes a newline.
std::string ShownText(absl::string_view text);

// ShownText for a text that arrives in pieces, which may end within a character. Not thread-safe.
class TerminalFilter {
 public:
  // Returns what `piece` adds to the text that is shown. The beginning of a character, and a
  // carriage return, are held back until the next piece.
  std::string Filter(absl::string_view piece);

 private:
  std::string held_;  // at most 3 bytes between two calls
};

}  // namespace baton
