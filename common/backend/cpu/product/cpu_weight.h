// A weight matrix in the form that the CPU multiplies with: groups of 16 rows, interleaved.
//
// Rows are padded with zeros to a multiple of 16. A group of a quantised type holds its blocks
// (packed_weight.h) in ascending columns. A group of a float type holds [columns][16] elements,
// each as in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/memory.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/product/packed_weight.h"
#include "common/backend/cpu/simd/lanes.h"
#include "common/gguf/gguf_file.h"

namespace baton {

class CpuWeight final : public Weight {
 public:
  // Packs the tensor on the pool's threads. UNIMPLEMENTED names the tensor and its type,
  // INVALID_ARGUMENT its shape or a NaN in the place of a scale. The weight must not outlive `memory`.
  static absl::StatusOr<std::unique_ptr<CpuWeight>> Pack(const GgufTensor& tensor, ThreadPool& pool,
                                                         CpuMemory& memory);
  // The bytes that Pack takes for such a tensor, whose own bytes are not read; or Pack's error.
  static absl::StatusOr<size_t> PackedBytes(const GgufTensor& tensor);

  size_t size_bytes() const override { return data_.size_bytes(); }
  GgmlType type() const { return type_; }
  bool quantised() const;
  int groups() const { return (rows() + kLanes - 1) / kLanes; }
  const uint8_t* data() const { return data_.data(); }  // [groups, group_bytes]
  size_t group_bytes() const { return group_bytes_; }

  // Writes row `row` as floats to `out` [columns]. Each is the value that the file's format
  // defines, rounded once.
  void Dequantise(int row, float* out) const;

 private:
  CpuWeight(const GgufTensor& tensor, size_t group_bytes, BackendBuffer data);

  GgmlType type_;
  size_t group_bytes_;
  BackendBuffer data_;
};

// Returns the weight as this backend made it. REQUIRES: the CPU backend made it.
inline const CpuWeight& AsCpu(const Weight& weight) {
  return static_cast<const CpuWeight&>(weight);
}

}  // namespace baton
