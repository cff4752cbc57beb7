// The form that an answer is held to, as flags of `baton run`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "baton/v1/generation.pb.h"
#include "common/flags/flags.h"

namespace baton {

// What the flags say. At most one may be given.
struct ResponseFormatFlags {
  bool json_object = false;
  std::string json_schema;  // a file
  std::string regex;
  std::string grammar;  // a file
  std::vector<std::string> choices;
};

// Binds a flag to each field. REQUIRES: `format` outlives `flags`.
void AddResponseFormatFlags(FlagSet& flags, ResponseFormatFlags& format);

// The form that was asked for, whose file is read now; without any if no flag was given. An error
// names the flag, or two that were both given.
absl::StatusOr<v1::ResponseFormat> ReadResponseFormat(const FlagSet& flags,
                                                      const ResponseFormatFlags& format);

}  // namespace baton
