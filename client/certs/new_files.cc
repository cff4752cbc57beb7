#include "client/certs/new_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kRemedy[] = "name a folder of yours with --folder";

absl::Status AlreadyThere(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": already exists; give --force to replace it"));
}

absl::Status MakeFolder(const std::filesystem::path& folder) {
  std::error_code unknown;  // what cannot be looked at cannot be made either
  if (folder.empty() || std::filesystem::exists(folder, unknown)) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(MakeFolder(folder.parent_path()));
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder.string(), ": cannot be written: ", std::strerror(errno), "; ", kRemedy));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteNewFiles(const std::vector<NewFile>& files, bool replace) {
  struct stat ignored {};
  for (const NewFile& file : files) {
    if (!replace && lstat(file.path.c_str(), &ignored) == 0) return AlreadyThere(file.path);
  }
  for (const NewFile& file : files) {
    BATON_RETURN_IF_ERROR(MakeFolder(std::filesystem::path(file.path).parent_path()));
    const absl::Status status = WriteSmallFile(
        file.path, file.contents, {.mode = file.mode, .replace = replace, .remedy = kRemedy});
    if (absl::IsAlreadyExists(status)) return AlreadyThere(file.path);
    BATON_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace baton
