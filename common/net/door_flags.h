// The flags by which the router and `baton serve` say whom they serve.
#pragma once

#include <string>
#include <vector>

#include "common/flags/flags.h"

namespace baton {

// Adds --serve-key-file. Other servers take the key itself as --api-key, which is an error that
// names --serve-key-file.
void AddServeKeyFileFlag(FlagSet& flags, std::string& file);

// Adds --http-allow-host.
void AddHttpAllowHostFlag(FlagSet& flags, std::vector<std::string>& hosts);

}  // namespace baton
