// A name that one process has among all processes of Baton that its user runs on the machine.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace baton {

// The name is a locked file in the user's own folder (client/serve/runtime_folder.h), where no other
// user can take it. Only one process can lock the file at a time, and the kernel frees the lock when
// the process ends in any way. Processes with different folders (other users, most containers) do
// not see each other's names. Movable; not thread-safe.
class NameClaim {
 public:
  // Returns nullopt if another process has the name. If the file cannot be made or locked (there is
  // no such folder, no descriptor is left), the name counts as ours, and other processes do not see
  // the claim. Never waits: it takes microseconds. REQUIRES: `name` can be a file's name.
  static std::optional<NameClaim> Take(const std::string& name);

  NameClaim(NameClaim&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
  NameClaim& operator=(NameClaim&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~NameClaim();

 private:
  NameClaim() = default;
  NameClaim(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_ = -1;  // descriptor of the locked file; -1: the claim is not visible to others
};

}  // namespace baton
