// Text as editors on Windows save it. Pure functions.
#pragma once

#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace baton {

// Returns `text` without the byte order mark (U+FEFF in UTF-8) that it may begin with.
inline absl::string_view WithoutByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xef\xbb\xbf");
}

// Returns `text` with "\n" in place of each "\r\n". Other carriage returns stay.
inline std::string WithUnixLineEnds(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\r\n", "\n"}});
}

}  // namespace baton
