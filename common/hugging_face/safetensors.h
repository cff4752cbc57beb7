// Reads the header of a safetensors file: a 64-bit length, so many bytes of JSON that give each
// tensor's dtype, shape and place, then the tensors' bytes one after the other.
//
// The file is not trusted. Limits: 32 MiB of JSON, 65,536 tensors with names of at most 256 bytes
// and at most 4 dimensions. Refused: tensors that overlap, leave bytes between them, have no
// elements or do not fit their dtype and shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton {

enum class SafeType { kBf16, kF16, kF32, kF8E4m3, kU8, kOther };

struct SafeTensor {
  std::string name;
  SafeType type;
  std::string dtype;               // as the file calls the type, such as "BF16"
  std::vector<uint64_t> shape;     // outermost first; empty: one element
  absl::Span<const uint8_t> data;  // in the file

  uint64_t elements() const;
};

// Bytes of an element. REQUIRES: it is not kOther.
uint64_t SafeTypeBytes(SafeType type);

// The tensors of a file, in the order of their names. `data` points into `bytes`. INVALID_ARGUMENT,
// with a message that begins with `name`, says what is wrong and the remedy.
absl::StatusOr<std::vector<SafeTensor>> ParseSafetensors(absl::Span<const uint8_t> bytes,
                                                         const std::string& name);

}  // namespace baton
