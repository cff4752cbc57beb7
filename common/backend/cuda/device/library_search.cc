#include "common/backend/cuda/device/library_search.h"

#include <dlfcn.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

constexpr const char* kToolkitLibraries[] = {"/lib64", "/lib", "/targets/x86_64-linux/lib"};
constexpr const char* kPythonPackages[] = {"/lib/python3*/site-packages",
                                           "/lib/python3*/dist-packages"};
constexpr const char* kInPackages = "/nvidia/*/lib";

std::optional<std::string> AbsolutePath(const LibrarySearch& search, const char* variable) {
  std::optional<std::string> path = search.environment(variable);
  if (!path.has_value() || path->empty() || path->front() != '/') return std::nullopt;
  return path;
}

bool IsFile(const std::string& path) {
  struct stat facts = {};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

}  // namespace

LibrarySearch LibrarySearch::OfThisProcess() {
  return {.environment = [](const char* name) -> std::optional<std::string> {
            const char* value = std::getenv(name);
            if (value == nullptr) return std::nullopt;
            return value;
          },
          .root = ""};
}

std::vector<std::string> LibraryFolders(const LibrarySearch& search) {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const auto home = AbsolutePath(search, variable);
    for (const char* libraries : kToolkitLibraries) {
      if (home.has_value()) folders.push_back(*home + libraries);
    }
  }
  for (const char* libraries : kToolkitLibraries) {
    folders.push_back(absl::StrCat(search.root, "/usr/local/cuda*", libraries));
  }
  const std::string python_path = search.environment("PYTHONPATH").value_or("");
  for (const absl::string_view path : absl::StrSplit(python_path, ':')) {
    if (!path.empty() && path.front() == '/') folders.push_back(absl::StrCat(path, kInPackages));
  }
  std::vector<std::string> prefixes;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const auto prefix = AbsolutePath(search, variable);
    if (prefix.has_value()) prefixes.push_back(*prefix);
  }
  const std::string path = search.environment("PATH").value_or("");
  for (const absl::string_view bin : absl::StrSplit(path, ':')) {
    if (absl::StartsWith(bin, "/") && absl::EndsWith(bin, "/bin")) {
      prefixes.emplace_back(absl::StripSuffix(bin, "/bin"));
    }
  }
  const auto home = AbsolutePath(search, "HOME");
  if (home.has_value()) prefixes.push_back(*home + "/.local");
  prefixes.push_back(search.root + "/usr/local");
  prefixes.push_back(search.root + "/usr");
  for (const std::string& prefix : prefixes) {
    for (const char* packages : kPythonPackages) {
      folders.push_back(absl::StrCat(prefix, packages, kInPackages));
    }
  }
  std::vector<std::string> once;  // without repetition: CUDA_HOME and CUDA_PATH are often equal
  for (std::string& folder : folders) {
    if (std::find(once.begin(), once.end(), folder) == once.end()) {
      once.push_back(std::move(folder));
    }
  }
  return once;
}

std::vector<std::string> FindLibraryFiles(const std::string& soname,
                                          const std::vector<std::string>& folders) {
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    std::vector<std::string> matches = Matches(absl::StrCat(folder, "/", soname));
    std::sort(matches.begin(), matches.end(), [](const std::string& a, const std::string& b) {
      return strverscmp(a.c_str(), b.c_str()) > 0;
    });
    std::copy_if(matches.begin(), matches.end(), std::back_inserter(files), IsFile);
  }
  return files;
}

absl::StatusOr<void*> LoadSharedLibrary(const std::string& soname, const std::string& remedy,
                                        const LibrarySearch& search) {
  const std::vector<std::string> folders = LibraryFolders(search);
  std::vector<std::string> candidates = {soname};
  for (std::string& file : FindLibraryFiles(soname, folders)) candidates.push_back(std::move(file));
  std::vector<std::string> answers;
  for (const std::string& candidate : candidates) {
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    answers.push_back(dlerror());
  }
  return absl::NotFoundError(absl::StrCat(
      "shared library ", soname, ": was not found by the dynamic loader or in ",
      absl::StrJoin(folders, ", "), " (", absl::StrJoin(answers, "; "), "): ", remedy));
}

}  // namespace baton
