// Maps a whole file read-only.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/gguf/cut_file_guard.h"

namespace baton {

// Immutable: the bytes may be read from any thread, and keep their address when the object is
// moved. If the file is replaced by rename, its old content stays here. If it is cut short in
// place, the next read behind its end ends the process: with a line on stderr that names the file
// and the remedy, and kExitCutFile.
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
  MappedFile(absl::Span<const uint8_t> bytes, const std::string& path);
  absl::Span<const uint8_t> bytes_;
  CutFileGuard guard_;
};

}  // namespace baton
