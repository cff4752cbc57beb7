#include "common/gguf/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

absl::Status SystemError(int error, const std::string& path, const char* what, const char* remedy) {
  const char* why = strerrordesc_np(error);
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      absl::StrCat(path, ": ", what, " (", why != nullptr ? why : "unknown error", "); ", remedy));
}

struct FileDescriptor {
  ~FileDescriptor() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, bool will_read_all) {
  // With O_NONBLOCK, opening a pipe does not wait for a writer. It changes nothing for a regular
  // file.
  FileDescriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    return SystemError(errno, path, "cannot be opened", "check the path and the permissions");
  struct stat facts;
  if (fstat(file.fd, &facts) != 0)
    return SystemError(errno, path, "cannot be examined", "check the disk");
  if (S_ISDIR(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a directory; give the path of a file inside it"));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a regular file; give the path of a file on disk"));
  }
  if (facts.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is empty; fetch the file again"));
  }
  const auto size = static_cast<size_t>(facts.st_size);
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (map == MAP_FAILED)
    return SystemError(errno, path, "cannot be mapped into memory",
                       "free memory or raise the limit on address space");
  // This is only advice: a kernel that refuses it still serves the pages.
  if (will_read_all) (void)madvise(map, size, MADV_WILLNEED);
  return MappedFile(std::exchange(file.fd, -1), absl::TimeFromTimespec(facts.st_mtim),
                    absl::MakeConstSpan(static_cast<const uint8_t*>(map), size), path);
}

void MappedFile::Release(absl::Span<const uint8_t> part) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + part.size()) / page * page;
  // This is only advice: pages that stay in memory are still right.
  if (first < end) (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

MappedFile::MappedFile(int fd, absl::Time written, absl::Span<const uint8_t> bytes,
                       const std::string& path)
    : fd_(fd), written_(written), bytes_(bytes), guard_(bytes, path) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(other.fd_),
      written_(other.written_),
      bytes_(std::exchange(other.bytes_, {})),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(written_, other.written_);
  std::swap(bytes_, other.bytes_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  if (!IsAsItWas()) guard_.EndProcess();
  munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
  close(fd_);
}

bool MappedFile::IsAsItWas() const {
  struct stat facts;
  return fstat(fd_, &facts) == 0 && static_cast<size_t>(facts.st_size) == bytes_.size() &&
         absl::TimeFromTimespec(facts.st_mtim) == written_;
}

}  // namespace baton
