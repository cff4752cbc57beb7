#include "common/model/weights.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/model/tensor_loader.h"

namespace baton {
namespace {

// Calls Vector or Matrix for the tensors of one layer.
class LayerLoader {
 public:
  LayerLoader(TensorLoader& loader, const ModelConfig& config, int layer)
      : loader_(loader), config_(config), prefix_(absl::StrCat("blk.", layer, ".")) {}

  absl::Status Attention(LayerWeights& w) {
    const int query_size = config_.heads * config_.head_dim;
    const int kv_size = config_.kv_heads * config_.head_dim;
    if (config_.norm_places != NormPlaces::kAfter) {
      BATON_RETURN_IF_ERROR(Vector("attn_norm.weight", config_.width, w.attention_norm));
    }
    if (loader_.Has(prefix_ + "attn_qkv.weight")) {
      BATON_RETURN_IF_ERROR(
          loader_.Matrices(prefix_ + "attn_qkv.weight", config_.width,
                           {{query_size, &w.query}, {kv_size, &w.key}, {kv_size, &w.value}}));
    } else {
      BATON_RETURN_IF_ERROR(Matrix("attn_q.weight", query_size, config_.width, w.query));
      BATON_RETURN_IF_ERROR(Matrix("attn_k.weight", kv_size, config_.width, w.key));
      BATON_RETURN_IF_ERROR(Matrix("attn_v.weight", kv_size, config_.width, w.value));
    }
    BATON_RETURN_IF_ERROR(VectorIfPresent("attn_q.bias", query_size, w.query_bias));
    BATON_RETURN_IF_ERROR(VectorIfPresent("attn_k.bias", kv_size, w.key_bias));
    BATON_RETURN_IF_ERROR(VectorIfPresent("attn_v.bias", kv_size, w.value_bias));
    if (config_.qk_norm != QkNorm::kNone) {
      const bool row = config_.qk_norm == QkNorm::kRow;
      BATON_RETURN_IF_ERROR(
          Vector("attn_q_norm.weight", row ? query_size : config_.head_dim, w.query_norm));
      BATON_RETURN_IF_ERROR(
          Vector("attn_k_norm.weight", row ? kv_size : config_.head_dim, w.key_norm));
    }
    if (config_.sinks) {
      BATON_RETURN_IF_ERROR(Vector("attn_sinks.weight", config_.heads, w.sinks));
    }
    BATON_RETURN_IF_ERROR(
        Matrix("attn_output.weight", config_.width, query_size, w.attention_output));
    if (config_.output_bias) {
      BATON_RETURN_IF_ERROR(Vector("attn_output.bias", config_.width, w.attention_output_bias));
    }
    if (config_.norm_places == NormPlaces::kBefore) return absl::OkStatus();
    return Vector("post_attention_norm.weight", config_.width, w.attention_post_norm);
  }

  absl::Status FeedForward(LayerWeights& w) {
    const int width = config_.width;
    if (config_.norm_places != NormPlaces::kAfter) {
      // GGUF calls the norm before gpt-oss's experts by where it stands.
      const bool other = config_.norm_places == NormPlaces::kBefore &&
                         !loader_.Has(prefix_ + "ffn_norm.weight") &&
                         loader_.Has(prefix_ + "post_attention_norm.weight");
      BATON_RETURN_IF_ERROR(Vector(other ? "post_attention_norm.weight" : "ffn_norm.weight", width,
                                   w.feed_forward_norm));
    }
    if (config_.experts.count > 0) {
      BATON_RETURN_IF_ERROR(LoadExperts(w.experts));
      BATON_RETURN_IF_ERROR(SharedExpert(w));
    } else {
      BATON_RETURN_IF_ERROR(DenseFeedForward(w));
    }
    if (config_.norm_places == NormPlaces::kBefore) return absl::OkStatus();
    return Vector("post_ffw_norm.weight", width, w.feed_forward_post_norm);
  }

 private:
  absl::Status DenseFeedForward(LayerWeights& w) {
    const int width = config_.width;
    const int hidden = config_.feed_forward_width;
    if (!loader_.Has(prefix_ + "ffn_gate.weight") &&
        loader_.HasRows(prefix_ + "ffn_up.weight", 2 * hidden)) {
      BATON_RETURN_IF_ERROR(
          loader_.Matrices(prefix_ + "ffn_up.weight", width, {{hidden, &w.gate}, {hidden, &w.up}}));
    } else {
      BATON_RETURN_IF_ERROR(Matrix("ffn_gate.weight", hidden, width, w.gate));
      BATON_RETURN_IF_ERROR(Matrix("ffn_up.weight", hidden, width, w.up));
    }
    return Matrix("ffn_down.weight", width, hidden, w.down);
  }

  absl::Status LoadExperts(ExpertWeights& w) {
    const int count = config_.experts.count;
    const int width = config_.width;
    const int hidden = config_.experts.width;
    BATON_RETURN_IF_ERROR(Matrix("ffn_gate_inp.weight", count, width, w.router));
    BATON_RETURN_IF_ERROR(VectorIfPresent("ffn_gate_inp.bias", count, w.router_bias));
    BATON_RETURN_IF_ERROR(Stack("ffn_gate_exps", count, hidden, width, w.gate, w.gate_bias));
    BATON_RETURN_IF_ERROR(Stack("ffn_up_exps", count, hidden, width, w.up, w.up_bias));
    return Stack("ffn_down_exps", count, width, hidden, w.down, w.down_bias);
  }

  // The feed-forward that all rows go through, beside the experts.
  absl::Status SharedExpert(LayerWeights& w) {
    const int width = config_.width;
    const int hidden = config_.experts.shared_width;
    if (hidden == 0) return absl::OkStatus();
    BATON_RETURN_IF_ERROR(Matrix("ffn_gate_shexp.weight", hidden, width, w.gate));
    BATON_RETURN_IF_ERROR(Matrix("ffn_up_shexp.weight", hidden, width, w.up));
    return Matrix("ffn_down_shexp.weight", width, hidden, w.down);
  }

  // The matrices [rows, columns] of all experts, and their biases if there are some.
  absl::Status Stack(const char* name, int count, int rows, int columns,
                     std::vector<std::unique_ptr<Weight>>& weights, WeightVector& biases) {
    BATON_RETURN_IF_ERROR(
        loader_.Stack(absl::StrCat(prefix_, name, ".weight"), count, rows, columns, weights));
    return loader_.VectorsIfPresent(absl::StrCat(prefix_, name, ".bias"), count, rows, biases);
  }

  absl::Status Vector(const char* name, int size, WeightVector& out) {
    return loader_.Vector(prefix_ + name, size, out);
  }
  absl::Status VectorIfPresent(const char* name, int size, WeightVector& out) {
    return loader_.VectorIfPresent(prefix_ + name, size, out);
  }
  absl::Status Matrix(const char* name, int rows, int columns, std::unique_ptr<Weight>& out) {
    return loader_.Matrix(prefix_ + name, rows, columns, out);
  }

  TensorLoader& loader_;
  const ModelConfig& config_;
  const std::string prefix_;
};

// Loads the divisors that the ropes name. Those for another context are checked as well.
absl::Status LoadRopeDivisors(TensorLoader& loader, const ModelConfig& config,
                              const std::string& path, std::vector<float>& divisors) {
  if (config.ropes.empty()) return absl::OkStatus();
  const RopeConfig& rope = config.ropes.front();
  for (const RopeDivisors kind :
       {RopeDivisors::kFrequencies, RopeDivisors::kShort, RopeDivisors::kLong}) {
    const std::string name = RopeDivisorsTensor(kind);
    const bool wanted = rope.divisors == kind;
    if (!wanted && !loader.Has(name)) continue;
    BATON_ASSIGN_OR_RETURN(std::vector<float> values, loader.HostVector(name, rope.dim / 2));
    for (const float divisor : values) {
      if (divisor >= 1e-6f && divisor <= 1e6f) continue;
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", name, "' contains ",
                                                     divisor,
                                                     ", which is not a divisor from 1e-6 to 1e6"));
    }
    if (wanted) divisors = std::move(values);
  }
  return absl::OkStatus();
}

// Takes all tensors of the file, whose path is `path`.
absl::StatusOr<ModelWeights> TakeAll(TensorLoader& loader, const ModelConfig& config,
                                     const std::string& path,
                                     absl::FunctionRef<void(double)> progress) {
  ModelWeights w;
  progress(0);
  BATON_RETURN_IF_ERROR(
      loader.Matrix("token_embd.weight", config.vocab_size, config.width, w.embedding));
  for (int layer = 0; layer < config.layers; ++layer) {
    LayerLoader of_layer(loader, config, layer);
    LayerWeights& weights = w.layers.emplace_back();
    BATON_RETURN_IF_ERROR(of_layer.Attention(weights));
    BATON_RETURN_IF_ERROR(of_layer.FeedForward(weights));
    progress((layer + 1.0) / (config.layers + 1.0));
  }
  BATON_RETURN_IF_ERROR(loader.Vector("output_norm.weight", config.width, w.output_norm));
  if (loader.Has("output.weight")) {
    BATON_RETURN_IF_ERROR(
        loader.Matrix("output.weight", config.vocab_size, config.width, w.output));
  }
  BATON_RETURN_IF_ERROR(LoadRopeDivisors(loader, config, path, w.rope_divisors));
  BATON_RETURN_IF_ERROR(loader.CheckNoneLeft(config.architecture));
  progress(1);
  return w;
}

}  // namespace

Experts ExpertWeights::View(const ModelConfig& config) const {
  return {.gate = gate,
          .up = up,
          .down = down,
          .gate_bias = gate_bias.data(),
          .up_bias = up_bias.data(),
          .down_bias = down_bias.data(),
          .used = config.experts.used,
          .function = config.gate_function};
}

absl::StatusOr<ModelWeights> ModelWeights::Load(const GgufFile& file, const ModelConfig& config,
                                                Backend& backend,
                                                absl::FunctionRef<void(double)> progress) {
  TensorLoader loader(file, backend, TensorLoader::Purpose::kLoad);
  return TakeAll(loader, config, file.path(), progress);
}

absl::StatusOr<uint64_t> ModelWeights::Measure(const GgufFile& file, const ModelConfig& config,
                                               Backend& backend) {
  TensorLoader loader(file, backend, TensorLoader::Purpose::kMeasure);
  BATON_RETURN_IF_ERROR(TakeAll(loader, config, file.path(), [](double) {}).status());
  return loader.measured_bytes();
}

}  // namespace baton
