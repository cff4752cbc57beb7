#include "common/net/model_name_flags.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/flags/flag_group.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

constexpr char kBlanks[] = " \t\r\n\v\f";

absl::Status CheckText(absl::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("has ", name.size(), " bytes; at most ",
                                                   kMaxNameBytes, " are allowed; shorten it"));
  }
  const bool prints = std::none_of(name.begin(), name.end(), [](char byte) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(byte));
  });
  if (prints && IsUtf8(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "has a control character or is not UTF-8; use printable characters");
}

// Adds the names of one text to `names`.
absl::Status AddNames(absl::string_view text, bool patterns, std::vector<std::string>& names) {
  for (const absl::string_view name :
       absl::StrSplit(text, absl::ByAnyChar(kBlanks), absl::SkipEmpty())) {
    BATON_RETURN_IF_ERROR(CheckText(name));
    if (!patterns && (absl::StrContains(name, '*') || absl::StrContains(name, '?'))) {
      return absl::InvalidArgumentError("is a pattern; use --model-alias for patterns");
    }
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (names.size() == kMaxModelNames) {
      return absl::InvalidArgumentError(
          absl::StrCat("is one too many: at most ", kMaxModelNames,
                       " are allowed; --model-alias 'PREFIX*' matches many names"));
    }
    names.emplace_back(name);
  }
  return absl::OkStatus();
}

// A flag whose values are separated by commas and by blanks.
FlagValue NamesValue(std::vector<std::string>& names, bool patterns) {
  FlagValue value = StringsValue(names);
  value.set = [&names, patterns](const std::string& text) {
    return AddNames(text, patterns, names);
  };
  return value;
}

}  // namespace

void AddModelFileFlags(FlagSet& flags, std::string& model, std::string& sha256,
                       absl::string_view note) {
  flags.SetGroup(FlagGroup::kModel);
  flags.AddString("model=FILE", model, absl::StrCat("GGUF file or Hugging Face folder", note));
  flags.AddString("model-sha256=HEX", sha256,
                  "SHA-256 that the model must have: the output of `sha256sum FILE`. For a model "
                  "of several files, see the command in docs/models.md");
}

void AddServedModelNameFlag(FlagSet& flags, std::vector<std::string>& names) {
  flags.SetGroup(FlagGroup::kModel);
  flags.Add("served-model-name=NAME",
            "Name by which clients call the model. May be repeated. Empty: the file's name",
            NamesValue(names, /*patterns=*/false));
}

void AddModelAliasFlag(FlagSet& flags, std::vector<std::string>& patterns) {
  flags.SetGroup(FlagGroup::kModel);
  flags.Add("model-alias=PATTERN",
            "Pattern of further names by which clients may call the model, such as claude-* (* "
            "matches any text, ? one character). May be repeated. GET /v1/models lists only exact "
            "names",
            NamesValue(patterns, /*patterns=*/true));
}

}  // namespace baton
