// The reference for the model: a plain float32 forward pass over the dequantised weights, without a
// KV cache and independent of the product's code.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/gguf/gguf_file.h"

namespace baton {

// The keys and values that a pass computed: for each layer [tokens, kv_heads * head_dim], keys
// after rotation.
struct ReferenceKv {
  std::vector<std::vector<float>> keys;    // [layers]
  std::vector<std::vector<float>> values;  // [layers]
};

// Supports what SmolLM2 is: the "llama" architecture (interleaved rotation of whole heads, no bias)
// with a tied head, in every weight type. Immutable and thread-safe.
class ReferenceModel {
 public:
  // Ends the process if it does not support the file.
  explicit ReferenceModel(const GgufFile& file);

  int vocab_size() const { return vocab_size_; }
  // The logits after each token, [tokens, vocab_size]. `kv` may be null.
  std::vector<float> Forward(const std::vector<int32_t>& tokens, ReferenceKv* kv) const;

 private:
  // A weight [rows, columns] as panels of 64 rows, [panel][column][64], so that loops over rows
  // vectorise.
  struct Matrix {
    int rows = 0;
    int columns = 0;
    std::vector<float> panels;
  };

  static Matrix LoadMatrix(const GgufFile& file, const std::string& name);
  std::vector<float> Product(const std::vector<float>& in, const std::string& weight) const;
  std::vector<float> Norm(const std::vector<float>& in, const std::string& gain) const;
  void Rotate(std::vector<float>& heads, int width) const;
  std::vector<float> Attention(const std::vector<float>& queries, const std::vector<float>& keys,
                               const std::vector<float>& values) const;

  int layers_ = 0;
  int width_ = 0;
  int heads_ = 0;
  int kv_heads_ = 0;
  int head_dim_ = 0;
  int vocab_size_ = 0;
  double rope_base_ = 0;
  float epsilon_ = 0;
  std::map<std::string, Matrix> matrices_;
  std::map<std::string, std::vector<float>> vectors_;
};

}  // namespace baton
