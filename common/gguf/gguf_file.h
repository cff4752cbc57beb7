// Reader of the GGUF model file format, versions 2 and 3 (ggml docs/gguf.md), over a read-only
// memory map.
//
// The file is not trusted: every count, length, offset and dimension is checked against the bytes
// that remain before it is used or allocated, and an error names the file, the key or tensor, and
// the remedy. Limits: 65,536 keys of at most 65,535 bytes, 65,536 tensors with names of at most 64
// bytes and 1 to 4 dimensions, alignment 8 to 4,096. Arrays in arrays, doubled keys or tensor
// names, overlapping tensors and parts of a split model are refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/gguf/ggml_type.h"

namespace baton {

struct GgufTensor {
  std::string name;
  GgmlType type;
  std::vector<uint64_t>
      dims;  // innermost (contiguous) first: a [rows, columns] matrix is {columns, rows}
  absl::Span<const uint8_t>
      data;  // into the map; its size is what type and dims ask for, never empty
};

// Immutable after Open: may be read from any thread. Movable; spans and views stay valid while it
// (or what it was moved into) lives.
class GgufFile {
 public:
  enum class Part {
    kAll,        // metadata and tensors; the tensors' bytes must be in the file
    kTokenizer,  // metadata only; a file cut off after its metadata is good enough
  };
  static absl::StatusOr<GgufFile> Open(const std::string& path, Part part = Part::kAll);
  // As Open, over bytes in memory (tests, fuzzing). `name` stands for the path in errors.
  static absl::StatusOr<GgufFile> Parse(std::string bytes, const std::string& name,
                                        Part part = Part::kAll);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const std::string& path() const;
  uint64_t size_bytes() const;

  bool Has(absl::string_view key) const;
  // The value of `key`. Integers of any width and sign are accepted where they fit; floats of both
  // widths. NOT_FOUND names the missing key, INVALID_ARGUMENT the key and the type found.
  absl::StatusOr<uint64_t> GetUint(absl::string_view key) const;
  absl::StatusOr<double> GetFloat(absl::string_view key) const;
  absl::StatusOr<bool> GetBool(absl::string_view key) const;
  absl::StatusOr<absl::string_view> GetString(absl::string_view key) const;
  absl::StatusOr<std::vector<absl::string_view>> GetStrings(absl::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(absl::string_view key) const;
  absl::StatusOr<std::vector<float>> GetFloats(absl::string_view key) const;

  // In file order.
  absl::Span<const GgufTensor> tensors() const;
  // Null when there is none of that name.
  const GgufTensor* FindTensor(absl::string_view name) const;

  // Takes the tensor's mapped bytes out of this process's memory: for whoever has made what it
  // needs of them. They stay readable, from the file.
  void Release(const GgufTensor& tensor) const;

  // SHA-256 (32 bytes) over the whole file: the weights' identity. Reads every byte: 0.05 s for 100
  // MB where the CPU has instructions for it. What it has read is released as Release does.
  std::string Digest() const;
  // SHA-256 over the metadata under "tokenizer.": what a router and its workers must agree on.
  std::string TokenizerDigest() const;

 private:
  struct Rep;
  explicit GgufFile(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
