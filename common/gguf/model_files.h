// The files that a model is read from, mapped or in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/gguf/mapped_file.h"

namespace baton {

// Movable; the bytes keep their addresses. Once all files are added, it may be read from any
// thread. What MappedFile says of files that are cut or written to holds for each.
class ModelFiles {
 public:
  // Maps a file and adds it. The bytes live as long as this. Errors are MappedFile::Open's.
  absl::StatusOr<absl::Span<const uint8_t>> Open(const std::string& path, bool will_read_all);
  // Adds bytes as a file of that name.
  absl::Span<const uint8_t> Add(const std::string& path, std::string bytes);

  uint64_t size_bytes() const;  // total size of all files
  // Takes bytes that were read out of this process's memory, if they lie in a mapped file; see
  // MappedFile::Release.
  void Release(absl::Span<const uint8_t> part) const;
  // SHA-256 (32 bytes) of the one file. Of several: SHA-256 of what `sha256sum` prints when it is
  // given their names, without folders, in the byte order of the names. All bytes are read and
  // released. `progress`, if it is not null, is called with the fraction done, 0 to 1.
  std::string Digest(const std::function<void(double)>& progress) const;
  // SHA-256 (32 bytes) over the files in the byte order of their names: of each its name, if there
  // are several, its size, and the SHA-256 of each of its pieces of 16 MiB, the last one shorter.
  // Those are made by `run` (GgufFile::RunAll), on whose calling thread `progress` is called.
  std::string PiecewiseDigest(
      absl::FunctionRef<void(int count, absl::FunctionRef<void(int, int)> work)> run,
      const std::function<void(double)>& progress) const;
  // SHA-256 (32 bytes) over the files in the byte order of their names: of each its name, if there
  // are several, its size, and samples of 64 KiB at even distances. At most 512 samples and one
  // for each file are read, so models of less than 32 MiB are hashed as a whole.
  std::string SampleDigest() const;

 private:
  struct File {
    std::string name;  // without folders
    std::optional<MappedFile> map;
    std::string memory;               // the contents, if there is no map
    absl::Span<const uint8_t> bytes;  // points into `map` or `memory`
  };
  std::vector<const File*> SortedByName() const;

  std::deque<File> files_;  // never moves its elements
};

}  // namespace baton
