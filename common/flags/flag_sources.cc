#include "common/flags/flag_sources.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/flags/arguments.h"
#include "common/flags/known_variables.h"

namespace baton {
namespace {

constexpr char kConfigFlag[] = "config";

}  // namespace

FlagSources::FlagSources(std::string path, ConfigValues file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<FlagSources> FlagSources::Read(std::string path) {
  if (path.empty()) {
    if (const char* named = std::getenv(EnvironmentName(kConfigFlag).c_str())) path = named;
  }
  if (path.empty()) return FlagSources({}, {});
  BATON_ASSIGN_OR_RETURN(ConfigValues file, ReadConfigFile(path));
  return FlagSources(std::move(path), std::move(file));
}

absl::Status FlagSources::CheckKeys(const std::vector<std::string>& names) const {
  for (const auto& [key, values] : file_) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    const std::string meant = DidYouMean(key, names);
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": unknown key '", LogSafe(key), "'",
        meant.empty() ? "; keys are the names of flags without the leading dashes: see --help"
                      : meant));
  }
  return absl::OkStatus();
}

FlagTexts FlagSources::Find(const std::string& flag) const {
  const std::string variable = EnvironmentName(flag);
  if (const char* text = std::getenv(variable.c_str())) {
    return {{text}, absl::StrCat(" (from ", variable, ")")};
  }
  const auto entry = file_.find(flag);
  if (entry == file_.end()) return {};
  return {entry->second, absl::StrCat(" (from ", path_, ")")};
}

}  // namespace baton
