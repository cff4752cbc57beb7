// Shapes, rules and random rows of sequences for the attention kernels, in the host's memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cuda/attention/attention.h"
#include "common/backend/cuda/attention/attention_plan.h"
#include "common/base/float_types.h"
#include "tests/support/stored_head.h"

namespace baton {

struct CudaShape {
  int head_dim;
  int group;
  int kv_heads;
  int block_size;
  KvType dtype;

  int heads() const { return group * kv_heads; }
  int columns() const { return heads() * head_dim; }
  int kv_columns() const { return kv_heads * head_dim; }
  KvLayerView View() const {
    KvLayerView view = {
        .block_size = block_size, .kv_heads = kv_heads, .head_dim = head_dim, .dtype = dtype};
    const size_t part_bytes = view.part().bytes();
    // Another group of layers has blocks of its own.
    view.groups = 2;
    view.group = 1;
    // Another layer lies before it and another behind it.
    view.keys_offset = 2 * part_bytes;
    view.values_offset = 3 * part_bytes;
    view.block_bytes = 6 * part_bytes;
    return view;
  }
  bool tensor_cores() const { return TilesFor(heads(), View()).prefill_rows > 0; }
  // The elements that the tensor cores multiply.
  KvType matrix_type() const { return IsQuantised(dtype) ? KvType::kF16 : dtype; }
};

// An AttentionRule whose sinks lie in the host's memory.
struct CudaRule {
  double scale = 0;  // 0: 1 / sqrt(head_dim)
  int window = 0;
  std::vector<float> sinks = {};  // [heads], or empty
  // Whether blocks that no row of a sequence sees are given back: their entries are 0. Block 0
  // holds NaN, and so does the first visible block before the first visible key.
  bool gives_back = false;

  float Scale(int head_dim) const {
    return static_cast<float>(scale == 0 ? 1 / std::sqrt(static_cast<float>(head_dim)) : scale);
  }
  int FirstKey(int position) const { return window == 0 ? 0 : std::max(0, position + 1 - window); }
};

inline std::string NameOf(const CudaShape& shape) {
  const char* const types[] = {"F32", "F16", "Bf16", "Int8", "Fp8", "Int4"};
  return "Dim" + std::to_string(shape.head_dim) + "Group" + std::to_string(shape.group) + "Heads" +
         std::to_string(shape.kv_heads) + "Block" + std::to_string(shape.block_size) +
         types[static_cast<int>(shape.dtype)];
}

inline float Rounded(KvType dtype, float x) {
  if (dtype == KvType::kF16) return F16ToF32(F32ToF16(x));
  if (dtype == KvType::kBf16) return Bf16ToF32(F32ToBf16(x));
  return x;
}

// The bytes of keys or values of a sequence in a quantised cache: codes and scales of all tokens.
struct StoredCodes {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

// Rows [first_position, first_position + row_count) of a sequence and the keys and values of all
// positions up to them, as the kernels see them.
struct CudaRows {
  int first_position;
  int row_count;
  std::vector<float> queries;  // [row_count, columns]
  std::vector<float> keys;     // [tokens, kv_columns]
  std::vector<float> values;
  StoredCodes key_codes;
  StoredCodes value_codes;

  int tokens() const { return first_position + row_count; }
};

enum class KvSide { kKeys, kValues };

// Quantises `floats` [tokens, kv_columns] and replaces them by the elements that the kernels see.
// The tensor cores have keys of a byte as they are, and scale their scores; others are rounded.
inline StoredCodes Quantise(const CudaShape& shape, KvSide side, std::vector<float>& floats) {
  const bool rounded =
      shape.tensor_cores() && (side == KvSide::kValues || shape.dtype == KvType::kInt4);
  StoredCodes codes;
  for (size_t i = 0; i < floats.size(); i += static_cast<size_t>(shape.head_dim)) {
    const StoredHead head = StoreHead(shape.dtype, &floats[i], shape.head_dim);
    codes.codes.insert(codes.codes.end(), head.codes.begin(), head.codes.end());
    codes.scales.insert(codes.scales.end(), head.scale_bytes.begin(), head.scale_bytes.end());
    for (size_t d = 0; d < head.stored.size(); ++d) {
      floats[i + d] = rounded ? Rounded(KvType::kF16, head.stored[d]) : head.stored[d];
    }
  }
  return codes;
}

inline CudaRows RandomSequence(const CudaShape& shape, int first_position, int row_count,
                               std::mt19937& random) {
  CudaRows sequence = {first_position, row_count, {}, {}, {}, {}, {}};
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& floats, int rows, int columns, float size,
                        bool stored) {
    floats.resize(static_cast<size_t>(rows * columns));
    for (float& x : floats)
      x = stored ? Rounded(shape.dtype, size * normal(random)) : size * normal(random);
  };
  // The queries prefer some keys to others.
  fill(sequence.queries, row_count, shape.columns(), 2, false);
  fill(sequence.keys, sequence.tokens(), shape.kv_columns(), 1, true);
  fill(sequence.values, sequence.tokens(), shape.kv_columns(), 1, true);
  if (IsQuantised(shape.dtype)) {
    sequence.key_codes = Quantise(shape, KvSide::kKeys, sequence.keys);
    sequence.value_codes = Quantise(shape, KvSide::kValues, sequence.values);
  }
  return sequence;
}

using CudaBatch = std::vector<CudaRows>;

}  // namespace baton
