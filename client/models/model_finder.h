// Finds the models that a path of `baton models` holds.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// How far a folder is looked through.
inline constexpr int kMaxFolderDepth = 3;        // levels of folders below the path
inline constexpr int kMaxFolderEntries = 10000;  // names in all folders below a path

// Whether the path is that of a Hugging Face folder: it has a config.json.
bool IsModelFolder(const std::string& path);

// The paths that may be given for --model, in the order of their names: `path` itself if it is a
// file or a Hugging Face folder (one with config.json), else the GGUF files and such folders in it.
// A split model is listed by its first part, or by its other parts if the first is missing. Links
// are followed.
// NOT_FOUND: there is no such path, or nothing in it. RESOURCE_EXHAUSTED: kMaxFolderEntries. Other
// errors: a folder cannot be read. They name the path and the remedy.
absl::StatusOr<std::vector<std::string>> FindModels(const std::string& path);

}  // namespace baton
