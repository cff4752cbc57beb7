// Reader of the GGUF model file format, versions 2 and 3 (ggml docs/gguf.md), over a read-only memory map.
//
// The file is not trusted: every count, length, offset and dimension is checked against the bytes that remain before it
// is used or allocated, and an error names the file, the key or tensor, and the remedy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

// Tensor types by their number in the file. Others are kept as numbers and refused by whoever loads the tensor.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBf16 = 30,
};

// "Q4_1"; "type 23" for a number without a name here.
std::string GgmlTypeName(GgmlType type);

struct GgufTensor {
  std::string name;
  GgmlType type;
  std::vector<uint64_t> dims;      // innermost (contiguous) first: a [rows, columns] matrix is {columns, rows}
  absl::Span<const uint8_t> data;  // into the map; its size is what type and dims ask for
};

// Immutable after Open: may be read from any thread. Movable; spans and views stay valid while it (or what it was moved
// into) lives.
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
  // The value of `key`. Integers of any width and sign are accepted where they fit; floats of both widths. NOT_FOUND
  // names the missing key, INVALID_ARGUMENT the key and the type found.
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

  // SHA-256 (32 bytes) over the whole file: the weights' identity. Reads every byte: 0.1 s for 100 MB, once.
  std::string Digest() const;
  // SHA-256 over the metadata under "tokenizer.": what a router and its workers must agree on.
  std::string TokenizerDigest() const;

 private:
  struct Rep;
  explicit GgufFile(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
