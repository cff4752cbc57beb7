// The form that an answer is held to, as flags of `baton run`.
#pragma once

#include "absl/status/status.h"

#include "baton/v1/generation.pb.h"
#include "common/flags/flags.h"

namespace baton {

// Adds --json-object, --json-schema FILE, --regex, --grammar FILE and --choice, each of which sets
// `format`. A file is read when its flag is. REQUIRES: `format` outlives `flags`.
void AddResponseFormatFlags(FlagSet& flags, v1::ResponseFormat& format);

// An error that names two of these flags, if more than one was given. REQUIRES: `flags` has them.
absl::Status CheckOneResponseFormat(const FlagSet& flags);

}  // namespace baton
