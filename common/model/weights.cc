#include "common/model/weights.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/float_types.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

// Takes tensors out of a file by name, and remembers which ones were taken.
class TensorLoader {
 public:
  TensorLoader(const GgufFile& file, Backend& backend) : file_(file), backend_(backend) {}

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }

  bool HasRows(const std::string& name, int rows) const {
    const GgufTensor* tensor = file_.FindTensor(name);
    return tensor != nullptr && tensor->dims.size() == 2 &&
           tensor->dims[1] == static_cast<uint64_t>(rows);
  }

  // Loads a matrix [rows, columns].
  absl::Status Matrix(const std::string& name, int rows, int columns,
                      std::unique_ptr<Weight>& out) {
    return Matrices(name, columns, {{rows, &out}});
  }

  struct RowRange {
    int rows;
    std::unique_ptr<Weight>* out;
  };
  // Loads matrices of the same columns that lie in one tensor, one below the other.
  absl::Status Matrices(const std::string& name, int columns, absl::Span<const RowRange> ranges) {
    int rows = 0;
    for (const RowRange& range : ranges) rows += range.rows;
    BATON_ASSIGN_OR_RETURN(const HeldTensor tensor, Find(name, {static_cast<uint64_t>(columns),
                                                                static_cast<uint64_t>(rows)}));
    return Split(*tensor, ranges);
  }

  // Loads `count` matrices [rows, columns] that lie in a tensor of three dimensions.
  absl::Status Stack(const std::string& name, int count, int rows, int columns,
                     std::vector<std::unique_ptr<Weight>>& out) {
    BATON_ASSIGN_OR_RETURN(const HeldTensor tensor,
                           Find(name, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(count)}));
    out.resize(static_cast<size_t>(count));
    std::vector<RowRange> ranges;
    for (std::unique_ptr<Weight>& weight : out) ranges.push_back({rows, &weight});
    return Split(*tensor, ranges);
  }

  // Loads a vector as floats in the host's memory.
  absl::StatusOr<std::vector<float>> HostVector(const std::string& name, int size) {
    BATON_ASSIGN_OR_RETURN(const HeldTensor tensor, Find(name, {static_cast<uint64_t>(size)}));
    return Floats(*tensor);
  }

  absl::Status Vector(const std::string& name, int size, WeightVector& out) {
    BATON_ASSIGN_OR_RETURN(const HeldTensor tensor, Find(name, {static_cast<uint64_t>(size)}));
    return Upload(*tensor, out);
  }
  absl::Status VectorIfPresent(const std::string& name, int size, WeightVector& out) {
    return Has(name) ? Vector(name, size, out) : absl::OkStatus();
  }
  // Loads `count` vectors that lie in one tensor.
  absl::Status VectorsIfPresent(const std::string& name, int count, int size, WeightVector& out) {
    if (!Has(name)) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(const HeldTensor tensor,
                           Find(name, {static_cast<uint64_t>(size), static_cast<uint64_t>(count)}));
    return Upload(*tensor, out);
  }

  // A tensor that was not taken would change the model in a way that is not computed here.
  absl::Status CheckNoneLeft(const std::string& architecture) const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (taken_.contains(tensor.name)) continue;
      return InFile(absl::UnimplementedError(absl::StrCat(
          "tensor '", tensor.name, "' is no part of the supported models of architecture '",
          architecture, "'")));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<HeldTensor> Find(const std::string& name, const std::vector<uint64_t>& dims) {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) {
      return InFile(absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is missing")));
    }
    if (tensor->dims != dims) {
      return InFile(absl::InvalidArgumentError(
          absl::StrCat("tensor '", name, "' has dimensions ", absl::StrJoin(tensor->dims, " x "),
                       "; the metadata asks for ", absl::StrJoin(dims, " x "))));
    }
    taken_.insert(name);
    return file_.Hold(*tensor);
  }

  // Loads the ranges of a tensor's rows, which are all of them.
  absl::Status Split(const GgufTensor& tensor, absl::Span<const RowRange> ranges) {
    uint64_t rows = 1;
    for (size_t i = 1; i < tensor.dims.size(); ++i) rows *= tensor.dims[i];
    const size_t row_bytes = tensor.data.size() / rows;
    size_t first = 0;
    for (const RowRange& range : ranges) {
      const auto count = static_cast<size_t>(range.rows);
      GgufTensor part = tensor;
      part.dims = {tensor.dims[0], count};
      part.data = tensor.data.subspan(first * row_bytes, count * row_bytes);
      absl::StatusOr<std::unique_ptr<Weight>> weight = backend_.LoadWeight(part);
      if (!weight.ok()) return InFile(weight.status());
      *range.out = *std::move(weight);
      first += count;
    }
    return absl::OkStatus();
  }

  // The values of a tensor of floats, in the host's memory.
  absl::StatusOr<std::vector<float>> Floats(const GgufTensor& tensor) const {
    size_t count = 1;
    for (const uint64_t dim : tensor.dims) count *= dim;
    std::vector<float> values(count);
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half = 0;
      switch (tensor.type) {
        case GgmlType::kF32:
          std::memcpy(&values[i], tensor.data.data() + i * sizeof(float), sizeof(float));
          break;
        case GgmlType::kF16:
          std::memcpy(&half, tensor.data.data() + i * sizeof(half), sizeof(half));
          values[i] = F16ToF32(half);
          break;
        case GgmlType::kBf16:
          std::memcpy(&half, tensor.data.data() + i * sizeof(half), sizeof(half));
          values[i] = Bf16ToF32(half);
          break;
        default:
          return InFile(absl::UnimplementedError(
              absl::StrCat("tensor '", tensor.name, "': type ", GgmlTypeName(tensor.type),
                           " is not supported for a vector; supported are F32, F16 and BF16")));
      }
    }
    return values;
  }

  absl::Status Upload(const GgufTensor& tensor, WeightVector& out) {
    BATON_ASSIGN_OR_RETURN(const std::vector<float> values, Floats(tensor));
    const size_t bytes = values.size() * sizeof(float);
    BATON_ASSIGN_OR_RETURN(BackendBuffer buffer, backend_.Allocate(bytes));
    backend_.Upload(values.data(), bytes, buffer.data());
    out = WeightVector(std::move(buffer));
    return absl::OkStatus();
  }

  absl::Status InFile(const absl::Status& status) const {
    return absl::Status(status.code(), absl::StrCat(file_.path(), ": ", status.message()));
  }

  const GgufFile& file_;
  Backend& backend_;
  absl::btree_set<std::string> taken_;
};

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
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor '", name, "' holds ", divisor, ", no divisor"));
    }
    if (wanted) divisors = std::move(values);
  }
  return absl::OkStatus();
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
  TensorLoader loader(file, backend);
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
  BATON_RETURN_IF_ERROR(LoadRopeDivisors(loader, config, file.path(), w.rope_divisors));
  BATON_RETURN_IF_ERROR(loader.CheckNoneLeft(config.architecture));
  progress(1);
  return w;
}

}  // namespace baton
