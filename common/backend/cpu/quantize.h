// The activations of a product in the form that quantised weights multiply with.
//
// By blocks of 32 columns: scale = max|x| / 127, value = x * (127 / max|x|) rounded to the nearest
// even integer, in
// [-127, 127]. A block whose maximum is below 2^-100 is zero.
#pragma once

#include <cstdint>
#include <vector>

#include "common/backend/cpu/cpu_weight.h"
#include "common/backend/cpu/isa.h"
#include "common/backend/cpu/thread_pool.h"
#include "common/backend/tensor.h"

namespace baton {

// Grows to the largest product it served and is used again for the next one.
struct QuantizedRows {
  int blocks = 0;  // per row
  std::vector<int16_t>
      values;  // [rows, blocks, 32]; of s8 range, in the width they are multiplied in
  std::vector<float> scales;  // [rows, blocks]
  std::vector<int32_t> sums;  // [rows, blocks]: of the values
};

// REQUIRES: in.columns is a multiple of 32.
void QuantizeRows(CpuIsa isa, ThreadPool& pool, Tensor in, QuantizedRows& out);

}  // namespace baton
