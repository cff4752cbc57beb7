// The arguments of `baton run` that have no flag: a model, a prompt, or both.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace baton {

// Returns whether people who write `text` mean a model: it ends in ".gguf", or is the path of a
// file that begins with "GGUF" or of a folder with a config.json. Reads at most the first four
// bytes of a regular file.
bool LooksLikeModel(const std::string& text);

struct RunArguments {
  std::string model;                                 // empty: none is given
  std::optional<std::string> prompt = std::nullopt;  // nullopt: none is given
};

// Decides what the arguments are: of two the first is the model, and one alone is the model only if
// LooksLikeModel. INVALID_ARGUMENT if the first of two does not look like one, which quotes that
// are missing around a prompt would cause.
absl::StatusOr<RunArguments> ReadRunArguments(const std::optional<std::string>& first,
                                              const std::optional<std::string>& second);

}  // namespace baton
