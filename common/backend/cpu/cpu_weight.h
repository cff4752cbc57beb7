// A weight matrix as the CPU kernels read it: repacked at load with 16 output rows interleaved.
//
// A group is 16 output rows (the last one filled up with zero rows). A group's data is contiguous
// and in ascending order of columns, so a product streams it once. Quantised codes are stored
// unsigned; the offset (8 for Q4_0, 128 for Q8_0) is taken off in the integers.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/lanes.h"
#include "common/backend/cpu/thread_pool.h"
#include "common/gguf/gguf_file.h"

namespace baton {

inline constexpr int kQuantBlock = 32;  // columns that share a scale

// weight = scale * (code - 8). The codes of columns k, k + 8, k + 16 and k + 24 are nibbles of
// codes[k], lowest first.
struct Q4_0Block {
  uint16_t codes[8][kLanes];
  float scale[kLanes];
};

// weight = scale * code + min.
struct Q4_1Block {
  uint16_t codes[8][kLanes];
  float scale[kLanes];
  float min[kLanes];
};

// weight = scale * (code - 128). The codes of columns k and k + 16 are bytes of codes[k], the lower
// first.
struct Q8_0Block {
  uint16_t codes[16][kLanes];
  float scale[kLanes];
};

class CpuWeight final : public Weight {
 public:
  // Packs on the pool's threads. UNIMPLEMENTED names the tensor and its type, INVALID_ARGUMENT its
  // shape.
  static absl::StatusOr<std::unique_ptr<CpuWeight>> Pack(const GgufTensor& tensor,
                                                         ThreadPool& pool);

  GgmlType type() const { return type_; }
  bool quantised() const {
    return type_ == GgmlType::kQ4_0 || type_ == GgmlType::kQ4_1 || type_ == GgmlType::kQ8_0;
  }
  int groups() const { return (rows() + kLanes - 1) / kLanes; }
  // Of a quantised weight: columns / 32.
  int blocks() const { return columns() / kQuantBlock; }

  // Q..Block[blocks] for the quantised types; else F32, F16 or BF16 [columns][16]. As the type
  // says.
  template <class Element>
  const Element* Group(int group) const {
    return reinterpret_cast<const Element*>(data_.data() +
                                            static_cast<size_t>(group) * group_bytes_);
  }

  // Row `row` as floats, each the value that the file's format defines, rounded once. `out`
  // [columns].
  void Dequantise(int row, float* out) const;

 private:
  CpuWeight(const GgufTensor& tensor, size_t group_bytes, BackendBuffer data);

  GgmlType type_;
  size_t group_bytes_;
  BackendBuffer data_;
};

}  // namespace baton
