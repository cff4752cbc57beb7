// The flags that name the model: --served-model-name of routers, workers and `baton serve`, and
// --model-alias of those that serve clients.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/flags/flags.h"

namespace baton {

// The most names, and the most patterns of aliases.
inline constexpr size_t kMaxModelNames = 32;

// Adds --served-model-name. The flag is repeated, or one value has several names, separated by
// commas or blanks. A name that is given twice counts once. A name has at most kMaxNameBytes bytes:
// UTF-8 without control characters and without '*' and '?'. An error names the flag, the value and
// the remedy.
void AddServedModelNameFlag(FlagSet& flags, std::vector<std::string>& names);

// Adds --model-alias. Its patterns are given as the names above, and may have '*' and '?'.
void AddModelAliasFlag(FlagSet& flags, std::vector<std::string>& patterns);

}  // namespace baton
