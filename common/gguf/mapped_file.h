// Maps a whole file read-only.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/gguf/cut_file_guard.h"

namespace baton {

// Immutable: the bytes may be read from any thread, and keep their address when the object is
// moved. If the file is replaced by rename, its old content stays here.
//
// If it is cut short or written to in place, the process ends with a line on stderr that names the
// file and the remedy, and kExitCutFile: at the next read behind the file's end or, since what was
// cut off its last page reads as zeros, when the object is destroyed. So what was computed from the
// bytes is to be used after that only.
class MappedFile {
 public:
  // `will_read_all`: the kernel is asked to read ahead. An error names the path and the remedy. An
  // empty file is an error.
  static absl::StatusOr<MappedFile> Open(const std::string& path, bool will_read_all);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  // Takes the whole memory pages inside `part` out of this process's memory. They come back from
  // the file when they are read again. REQUIRES: `part` lies in bytes().
  void Release(absl::Span<const uint8_t> part) const;

 private:
  MappedFile(int fd, absl::Time written, absl::Span<const uint8_t> bytes, const std::string& path);
  bool IsAsItWas() const;

  int fd_;                           // open while bytes_ is not empty
  absl::Time written_;               // when the file was last written to before it was mapped
  absl::Span<const uint8_t> bytes_;  // empty: moved from
  CutFileGuard guard_;
};

}  // namespace baton
