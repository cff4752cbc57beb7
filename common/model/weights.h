// A model's weights in its backend's memory, checked against its configuration.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/gguf/gguf_file.h"
#include "common/model/config.h"

namespace baton {

// A vector of floats in the backend's memory: the gain of a norm, a bias, or sinks.
class WeightVector {
 public:
  WeightVector() = default;
  explicit WeightVector(BackendBuffer buffer) : buffer_(std::move(buffer)) {}
  bool empty() const { return buffer_.size_bytes() == 0; }
  const float* data() const { return reinterpret_cast<const float*>(buffer_.data()); }

 private:
  BackendBuffer buffer_;
};

// The experts of a layer, and the router that chooses among them. What an architecture lacks is
// empty or null.
struct ExpertWeights {
  std::unique_ptr<Weight> router;             // [experts, width]; null: the layer has no experts
  WeightVector router_bias;                   // [experts]
  std::vector<std::unique_ptr<Weight>> gate;  // [experts] of [expert width, width]
  std::vector<std::unique_ptr<Weight>> up;    // [experts] of [expert width, width]
  std::vector<std::unique_ptr<Weight>> down;  // [experts] of [width, expert width]
  WeightVector gate_bias;                     // [experts, expert width]
  WeightVector up_bias;                       // [experts, expert width]
  WeightVector down_bias;                     // [experts, width]

  // The experts as a backend takes them; borrows these weights.
  Experts View(const ModelConfig& config) const;
};

struct LayerWeights {
  WeightVector attention_norm;               // [width]
  std::unique_ptr<Weight> query;             // [heads * head_dim, width]
  std::unique_ptr<Weight> key;               // [kv_heads * head_dim, width]
  std::unique_ptr<Weight> value;             // [kv_heads * head_dim, width]
  WeightVector query_bias;                   // [heads * head_dim]
  WeightVector key_bias;                     // [kv_heads * head_dim]
  WeightVector value_bias;                   // [kv_heads * head_dim]
  WeightVector query_norm;                   // [head_dim], or [heads * head_dim] (QkNorm::kRow)
  WeightVector key_norm;                     // [head_dim], or [kv_heads * head_dim]
  WeightVector sinks;                        // [heads]
  std::unique_ptr<Weight> attention_output;  // [width, heads * head_dim]
  WeightVector attention_output_bias;        // [width]
  WeightVector attention_post_norm;          // [width]
  WeightVector feed_forward_norm;            // [width]
  ExpertWeights experts;
  std::unique_ptr<Weight> gate;         // [dense_width, width]
  std::unique_ptr<Weight> up;           // [dense_width, width]
  std::unique_ptr<Weight> down;         // [width, dense_width]
  WeightVector feed_forward_post_norm;  // [width]
};

struct ModelWeights {
  std::unique_ptr<Weight> embedding;  // [vocab_size, width]
  std::vector<LayerWeights> layers;
  WeightVector output_norm;          // [width]
  std::unique_ptr<Weight> output;    // [vocab_size, width]; null: the embedding serves as head
  std::vector<float> rope_divisors;  // [dim / 2] those that config.ropes[0] names; on the host

  const Weight& head() const { return output == nullptr ? *embedding : *output; }

  // Reads every tensor once, in order. Calls `progress` with the fraction done, 0 to 1.
  // INVALID_ARGUMENT names a tensor that is missing or whose shape does not fit `config`.
  // UNIMPLEMENTED names one whose type or role is not supported: no tensor is ignored.
  static absl::StatusOr<ModelWeights> Load(const GgufFile& file, const ModelConfig& config,
                                           Backend& backend,
                                           absl::FunctionRef<void(double)> progress);
  // The bytes that Load takes in the backend's memory, or Load's error but for what is wrong with
  // the matrices' own bytes: they are not read.
  static absl::StatusOr<uint64_t> Measure(const GgufFile& file, const ModelConfig& config,
                                          Backend& backend);
};

}  // namespace baton
