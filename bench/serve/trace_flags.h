// Flags of a load that `baton bench serve` sends and `baton plan` replays.
#pragma once

#include <string>

#include "absl/status/status.h"

#include "bench/serve/load_source.h"
#include "bench/serve/trace_file.h"
#include "common/flags/flags.h"

namespace baton {

// Adds --trace, the path of the file, and the flags of TraceOptions. Borrows both.
void AddTraceFlags(FlagSet& flags, std::string& path, TraceOptions& trace);

// An error if a flag of TraceOptions was given without --trace; it names both.
absl::Status CheckTraceFlags(const FlagSet& flags);

// Adds --seed, and --request-rate, --input-len and --output-len for a load without a trace. Borrows
// both.
void AddGeneratedLoadFlags(FlagSet& flags, LoadClass& load, int& seed);

// Adds --objective, a text for ParseLoadObjective. Borrows it.
void AddObjectiveFlag(FlagSet& flags, std::string& objective);

}  // namespace baton
