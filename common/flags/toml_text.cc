#include "common/flags/toml_text.h"

#include "absl/strings/str_cat.h"

namespace baton {

absl::StatusOr<toml::table> ParseToml(const std::string& path, const std::string& text) {
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
