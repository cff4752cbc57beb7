// Models of a few thousand weights, built in memory in any weight type: tame ones for comparison
// with the reference, and others that give kernels every extreme of the formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/gguf/gguf_file.h"

namespace baton {

enum class TinyContents {
  // Random weights of usual magnitudes.
  kTame,
  // Rows whose codes are all lowest, all highest, one of these at random (which as an embedding
  // makes every activation of a product +-127), alternating, or zero. Blocks with scales that are
  // zero, -0, negative or denormal. Gains of norms so small that int8 activations become zero and
  // float products denormal. K and V stay in F16's range.
  kExtreme,
  // kExtreme with F16's largest scales, or floats of 1e9: K and V need an exponent of 8 bits.
  kHuge,
};
const char* TinyContentsName(TinyContents contents);

struct TinyModelOptions {
  std::vector<GgmlType> types = {GgmlType::kF32};  // matrix i of the file has types[i % size]
  TinyContents contents = TinyContents::kTame;
  uint32_t seed = 1;
  // True: "qwen2" with biases, half-split rotation and a separate head. False: "llama", whose
  // embedding is the head.
  bool qwen2 = false;
  int head_dim = 0;  // 0: 16 or 48, for which no attention kernel has a tile
};

inline constexpr int kTinyVocabSize = 37;  // two groups of 16 rows and an incomplete one

// Makes a model of one layer, of which every number is finite. Widths are 256 where K-quants need
// it (shorter rows have a simpler type), else no multiples of 64, and in float models no multiples
// of a vector's size.
GgufFile MakeTinyModel(const TinyModelOptions& options);

}  // namespace baton
