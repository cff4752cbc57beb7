#include "common/flags/toml_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {
namespace {

constexpr int kMaxKeyParts = 32;

// Returns the line of the first key with more parts, such as a.b.c with three; 0 if there is none.
// In a string of several lines it takes what looks like such a key for one.
int LineOfLongKey(const std::string& text) {
  int line = 1;
  int parts = 1;
  char quote = 0;  // the one that the string around began with
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      parts = 1;
      quote = 0;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.') {
      if (++parts > kMaxKeyParts) return line;
    } else if (absl::string_view("=,[]{}").find(c) != absl::string_view::npos) {
      parts = 1;
    }
  }
  return 0;
}

}  // namespace

absl::StatusOr<toml::table> ParseToml(const std::string& path, const std::string& text) {
  // The library calls itself for each part of a key, and would leave its stack.
  if (const int line = LineOfLongKey(text); line != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": has a key of more than ",
                                                   kMaxKeyParts, " dotted parts; shorten it"));
  }
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    const auto& [line, column] = error.source().begin;
    return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ":", column,
                                                   ": not TOML: ", std::string(error.description()),
                                                   "; write lines of key = value"));
  }
}

}  // namespace baton
