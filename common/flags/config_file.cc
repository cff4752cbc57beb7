#include "common/flags/config_file.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/small_file.h"
#include "common/base/status_macros.h"
#include "common/flags/toml_text.h"

namespace baton {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

std::optional<std::string> Text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* number = node.as_floating_point()) return absl::StrFormat("%.17g", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

absl::Status Unsupported(const std::string& path, absl::string_view key, const toml::node& node) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", node.source().begin.line, ": '", key,
                                                 "' must be a string, a number, true or false, or "
                                                 "an array of them; tables are not supported"));
}

}  // namespace

absl::StatusOr<ConfigValues> ReadConfigFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxFileBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--config ", text.status().message()));
  }
  BATON_ASSIGN_OR_RETURN(const toml::table table, ParseToml(path, *text));
  ConfigValues values;
  for (const auto& [toml_key, node] : table) {
    const std::string key(toml_key.str());
    std::vector<std::string>& entry = values[key];
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& element : *array) {
        const auto element_text = Text(element);
        if (!element_text) return Unsupported(path, key, element);
        entry.push_back(*element_text);
      }
    } else {
      const auto value = Text(node);
      if (!value) return Unsupported(path, key, node);
      entry.push_back(*value);
    }
  }
  return values;
}

}  // namespace baton
