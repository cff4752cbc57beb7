#include "client/new_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton {
namespace {

absl::Status CannotWrite(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path,
                                                 ": cannot be written: ", std::strerror(errno),
                                                 "; name a folder of yours with --folder"));
}

absl::Status AlreadyThere(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": is there already; --force replaces it"));
}

absl::Status WriteAll(int file, const std::string& path, const std::string& contents) {
  for (size_t done = 0; done < contents.size();) {
    const ssize_t written = write(file, contents.data() + done, contents.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return CannotWrite(path);
    done += static_cast<size_t>(written);
  }
  return fsync(file) == 0 ? absl::OkStatus() : CannotWrite(path);
}

absl::Status WriteOne(const NewFile& file, bool replace) {
  std::string temporary = file.path + ".XXXXXX";
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);  // with mode 0600
  if (descriptor < 0) return CannotWrite(file.path);
  const absl::Cleanup close_file = [descriptor] { close(descriptor); };
  const absl::Cleanup remove_temporary = [&temporary] { unlink(temporary.c_str()); };
  BATON_RETURN_IF_ERROR(WriteAll(descriptor, file.path, file.contents));
  if (fchmod(descriptor, file.mode) != 0) return CannotWrite(file.path);
  if (replace) {
    return rename(temporary.c_str(), file.path.c_str()) == 0 ? absl::OkStatus()
                                                             : CannotWrite(file.path);
  }
  // Unlike rename, link fails when another process has made the file in the meantime.
  if (link(temporary.c_str(), file.path.c_str()) == 0) return absl::OkStatus();
  return errno == EEXIST ? AlreadyThere(file.path) : CannotWrite(file.path);
}

absl::Status MakeFolder(const std::filesystem::path& folder) {
  std::error_code unknown;  // what cannot be looked at cannot be made either
  if (folder.empty() || std::filesystem::exists(folder, unknown)) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(MakeFolder(folder.parent_path()));
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return CannotWrite(folder);
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
    BATON_RETURN_IF_ERROR(WriteOne(file, replace));
  }
  return absl::OkStatus();
}

}  // namespace baton
