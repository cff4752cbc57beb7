// The tensor types of ggml: their numbers in the file, their names and their block sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace baton {

// Tensor types by their number in the file. The reader knows the size of every type that ggml has.
// A type without a name here keeps its number, and the loader of the tensor refuses it.
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
  kMxfp4 = 39,
};

// A row of `elements * n` values takes `bytes * n` bytes.
struct GgmlBlock {
  uint32_t elements;
  uint32_t bytes;
};

// The block of a type; nothing for a number that is no type of ggml.
std::optional<GgmlBlock> GgmlBlockOf(GgmlType type);

// ggml's own name, such as "Q4_1"; "type 99" for number 99 if it is no type of ggml.
std::string GgmlTypeName(GgmlType type);

}  // namespace baton
