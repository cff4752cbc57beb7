// The flags that name a trace and say what is taken of it.
#pragma once

#include <string>

#include "absl/status/status.h"

#include "bench/serve/trace_file.h"
#include "common/flags/flags.h"

namespace baton {

// Adds --trace, the path of the file, and the flags of TraceOptions. Borrows both.
void AddTraceFlags(FlagSet& flags, std::string& path, TraceOptions& trace);

// An error if one of the latter was given without --trace; it names both.
absl::Status CheckTraceFlags(const FlagSet& flags);

}  // namespace baton
