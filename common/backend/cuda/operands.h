// What the CUDA kernels are called with, beside tensor.h: plain structs of device pointers, for
// host code and kernels alike.
#pragma once

#include <cstdint>

namespace baton {

// The last five are of weights only: codes with common scales, as in GGUF.
enum class CudaElement { kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_1, kQ4_K, kQ6_K };
constexpr bool IsQuantised(CudaElement element) { return element > CudaElement::kBf16; }

// A row-major matrix [rows, columns] in device memory; borrowed. Its data and each of its rows
// begin at multiples of 16 bytes; weight_layout.h says how a row lies there.
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
  const int32_t* sequence_of_row = nullptr;  // [rows]
  const int32_t* positions = nullptr;        // [rows]; -1: the row is padding
  const int32_t* first_rows = nullptr;       // [sequences + 1]
  const int32_t* block_tables = nullptr;     // [sequences, table_stride]
  int table_stride = 0;                      // blocks of the longest table
  bool rope_half_split = false;              // pairs (i, i + dim/2) instead of (2i, 2i + 1)
  int rope_dim = 0;
  const float* rope_cos = nullptr;  // [rows, rope_dim / 2]
  const float* rope_sin = nullptr;  // [rows, rope_dim / 2]
};

}  // namespace baton
