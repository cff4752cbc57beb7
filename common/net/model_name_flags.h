// The flags that name the model: --model, --model-sha256 and --served-model-name of routers,
// workers and `baton serve`, and --model-alias of routers and `baton serve`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "common/flags/flags.h"

namespace baton {

// The most names, and the most patterns of aliases.
inline constexpr size_t kMaxModelNames = 32;

// Adds --model and --model-sha256. The help of --model ends with `note`.
void AddModelFileFlags(FlagSet& flags, std::string& model, std::string& sha256,
                       absl::string_view note = "");

// Adds --served-model-name. The flag is repeated, or one value has several names, separated by
// commas or blanks. A name that is given twice counts once. A name has at most kMaxNameBytes bytes:
// UTF-8 without control characters and without '*' and '?'. An error names the flag, the value and
// the remedy.
void AddServedModelNameFlag(FlagSet& flags, std::vector<std::string>& names);

// Adds --model-alias. Its patterns are given as the names above, and may have '*' and '?'.
void AddModelAliasFlag(FlagSet& flags, std::vector<std::string>& patterns);

}  // namespace baton
