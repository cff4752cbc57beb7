// The search for a shared library of the CUDA Toolkit that the loader does not find by itself: in
// the toolkit's folders, and in the folders of Python packages.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// The machine as the search sees it.
struct LibrarySearch {
  // Returns the value of an environment variable.
  std::function<std::optional<std::string>(const char* name)> environment;
  std::string root;  // prefix of every path that is not from the environment; "" for the machine's

  static LibrarySearch OfThisProcess();
};

// Patterns (glob) of the folders that may hold the library, the best first: CUDA_HOME and
// CUDA_PATH, /usr/local/cuda*, then the nvidia packages of Python in PYTHONPATH, VIRTUAL_ENV,
// CONDA_PREFIX, beside the bin folders of PATH (as `python3` in an image often is), in the user's
// folder and the system's. Relative paths of the environment are ignored.
std::vector<std::string> LibraryFolders(const LibrarySearch& search);

// The files named `soname` in these folders, in the order of `folders`. Among the matches of one
// pattern the higher version comes first.
std::vector<std::string> FindLibraryFiles(const std::string& soname,
                                          const std::vector<std::string>& folders);

// Calls dlopen by the loader's own rules (LD_LIBRARY_PATH among them), then on each file found. The
// library stays loaded until the process ends. NOT_FOUND lists the folders, the loader's message
// and `remedy`.
absl::StatusOr<void*> LoadSharedLibrary(const std::string& soname, const std::string& remedy,
                                        const LibrarySearch& search);

}  // namespace baton
