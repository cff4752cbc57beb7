// The operands of the CUDA kernels, beside tensor.h: plain structs of device pointers, for host
// code and kernels alike.
#pragma once

#include <cstdint>

namespace baton {

// Element types. Only weights have the last six: codes with common scales, as in GGUF.
enum class CudaElement { kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_1, kQ4_K, kQ6_K, kMxfp4 };
constexpr bool IsQuantised(CudaElement element) { return element > CudaElement::kBf16; }

// A row-major matrix [rows, columns] in device memory; borrowed. The data and each row begin at
// multiples of 16 bytes; weight_layout.h describes a row.
struct CudaMatrix {
  const void* data = nullptr;
  CudaElement element = CudaElement::kF32;
  int rows = 0;
  int columns = 0;
};

// The rows of a pass, in device memory; borrowed.
struct CudaPass {
  int rows = 0;
  int sequences = 0;
  const int32_t* table_of_row = nullptr;  // [rows]; where in block_tables its sequence's begins
  const int32_t* positions = nullptr;     // [rows]; -1: the row is padding
  const int32_t* first_rows = nullptr;    // [sequences + 1]; the last is the number of rows
  const int32_t* block_tables = nullptr;  // those of the sequences, one behind the other
  const float* query_scales = nullptr;    // [rows], or null: 1
};

// The angles of the layers of one kind, in device memory; borrowed.
struct CudaRope {
  bool half_split = false;         // pairs (i, i + dim / 2) instead of (2i, 2i + 1)
  int dim = 0;                     // rotated dimensions of a head; 0: nothing is rotated
  const float* cosines = nullptr;  // [rows of the pass, dim / 2]
  const float* sines = nullptr;    // [rows of the pass, dim / 2]
};

}  // namespace baton
