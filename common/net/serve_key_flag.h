// The flag of the router and of `baton serve` for API keys that the operator has chosen.
#pragma once

#include <string>

#include "common/flags/flags.h"

namespace baton {

// Adds --serve-key-file. Other servers take the key itself as --api-key, or such a file as
// --api-key-file: these two are errors that name --serve-key-file.
void AddServeKeyFileFlag(FlagSet& flags, std::string& file);

}  // namespace baton
