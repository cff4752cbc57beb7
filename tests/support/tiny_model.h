// Models of a few thousand weights, built in memory in any weight type: tame ones for comparison
// with the reference, and ones that put every extreme of the formats into the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/gguf/gguf_file.h"

namespace baton {

enum class TinyContents {
  // Random weights of a model's usual sizes.
  kTame,
  // By rows: all codes lowest, all highest, either at random (which as an embedding makes every
  // activation of a product +-127), alternating, or zero; by blocks: scales of zero, -0, negative
  // and denormal ones. Norms with gains down to where int8 activations become zero and float
  // products denormal. K and V stay in F16's range.
  kExtreme,
  // The same with F16's largest scales (or floats of 1e9): K and V need an exponent of 8 bits.
  kHuge,
};
const char* TinyContentsName(TinyContents contents);

struct TinyModelOptions {
  std::vector<GgmlType> types = {GgmlType::kF32};  // matrix i of the file has types[i % size]
  TinyContents contents = TinyContents::kTame;
  uint32_t seed = 1;
  // "qwen2": biases, half-split rotation, a head of its own. Else "llama", the embedding as head.
  bool qwen2 = false;
  int head_dim = 0;  // 0: 16 or 48, which no attention kernel has a tile for
};

inline constexpr int kTinyVocabSize = 37;  // more than two groups of 16 rows, the last one partly

// One layer. Widths are 256 where K-quants ask for it (rows that are shorter have a simpler type),
// else no multiples of 64, and in float models of no vector's size. Every number of the model is
// finite.
GgufFile MakeTinyModel(const TinyModelOptions& options);

}  // namespace baton
