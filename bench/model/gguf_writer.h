// A writer of GGUF files (version 3). It writes the metadata and the list of tensors first, then
// one tensor after the other, so that a file may be larger than memory.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/gguf/ggml_type.h"
#include "common/gguf/gguf_metadata.h"

namespace baton {

struct GgufTensorEntry {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<uint64_t> dims;  // innermost first; dims[0] is a multiple of the type's block

  size_t size_bytes() const;
};

// Not thread-safe. Borrows the file, which is open for writing. Errors name the file and say what
// the system said.
class GgufWriter {
 public:
  // `name` stands for the file in errors.
  GgufWriter(std::FILE* file, std::string name) : file_(file), name_(std::move(name)) {}

  // Writes all that stands before the tensors' data.
  absl::Status WriteHeader(const GgufMetadata& metadata, absl::Span<const GgufTensorEntry> tensors);
  // Writes the next bytes of the current tensor, in any number of pieces. Tensors come in the
  // order of the header.
  absl::Status WriteData(absl::Span<const uint8_t> bytes);
  // Pads the tensor to the format's alignment. Call it after the last byte of each tensor.
  absl::Status EndTensor();

 private:
  absl::Status Write(const void* bytes, size_t size);

  std::FILE* file_;
  std::string name_;
  uint64_t written_ = 0;  // bytes written to the file so far
};

}  // namespace baton
