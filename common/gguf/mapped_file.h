// A whole file, mapped read-only.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton {

// Immutable; the bytes may be read from any thread and stay where they are when the object is
// moved. A file that is replaced by rename keeps its old content here; one that is cut short in
// place raises SIGBUS at the next read.
class MappedFile {
 public:
  // `will_read_all`: ask the kernel to read ahead. An error names the path and the remedy; an empty
  // file is one.
  static absl::StatusOr<MappedFile> Open(const std::string& path, bool will_read_all);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  // The whole pages inside `part` leave this process's memory; they come back from the file when
  // they are read again. REQUIRES: `part` lies in bytes().
  void Release(absl::Span<const uint8_t> part) const;

 private:
  explicit MappedFile(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  absl::Span<const uint8_t> bytes_;
};

}  // namespace baton
