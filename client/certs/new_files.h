// Files that appear whole or not at all, for keys and certificates.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace baton {

struct NewFile {
  std::string path;
  std::string contents;
  mode_t mode = 0600;
};

// Writes the files in their order, each to a temporary name in its folder first, and makes the
// folders that are missing, for their owner only. Without `replace` an existing file is left as it
// is, and nothing is written. INVALID_ARGUMENT names the file and the remedy.
absl::Status WriteNewFiles(const std::vector<NewFile>& files, bool replace);

}  // namespace baton
