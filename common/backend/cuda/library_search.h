// Where a shared library of the CUDA Toolkit lies that the loader does not find by itself: it is in
// the toolkit's folders, or came with a Python package.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// What the search sees of the machine.
struct LibrarySearch {
  // The value of an environment variable.
  std::function<std::optional<std::string>(const char* name)> environment;
  std::string root;  // before every path that is not from the environment; "" for the machine's own

  static LibrarySearch OfThisProcess();
};

// Patterns (glob) of the folders that may hold the library, the best first: CUDA_HOME and
// CUDA_PATH, /usr/local/cuda*, then the nvidia packages of Python: PYTHONPATH, VIRTUAL_ENV,
// CONDA_PREFIX, the user's, the system's. Relative paths of the environment are ignored.
std::vector<std::string> LibraryFolders(const LibrarySearch& search);

// The files of that name in these folders, in their order; in what one pattern matches the higher
// version comes first.
std::vector<std::string> FindLibraryFiles(const std::string& soname,
                                          const std::vector<std::string>& folders);

// dlopen by the loader's own rules (LD_LIBRARY_PATH among them), then of each file found. It stays
// loaded to the end of the process. NOT_FOUND lists the folders, what the loader said, and
// `remedy`.
absl::StatusOr<void*> LoadSharedLibrary(const std::string& soname, const std::string& remedy,
                                        const LibrarySearch& search);

}  // namespace baton
