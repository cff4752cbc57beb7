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

  // Loads a matrix [rows, columns].
  absl::Status Matrix(const std::string& name, int rows, int columns,
                      std::unique_ptr<Weight>& out) {
    BATON_ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, {static_cast<uint64_t>(columns),
                                                                 static_cast<uint64_t>(rows)}));
    absl::StatusOr<std::unique_ptr<Weight>> weight = backend_.LoadWeight(*tensor);
    if (!weight.ok()) return InFile(weight.status());
    file_.Release(*tensor);
    out = *std::move(weight);
    return absl::OkStatus();
  }

  // Loads a vector as floats in the host's memory.
  absl::StatusOr<std::vector<float>> HostVector(const std::string& name, int size) {
    BATON_ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, {static_cast<uint64_t>(size)}));
    std::vector<float> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half = 0;
      switch (tensor->type) {
        case GgmlType::kF32:
          std::memcpy(&values[i], tensor->data.data() + i * sizeof(float), sizeof(float));
          break;
        case GgmlType::kF16:
          std::memcpy(&half, tensor->data.data() + i * sizeof(half), sizeof(half));
          values[i] = F16ToF32(half);
          break;
        case GgmlType::kBf16:
          std::memcpy(&half, tensor->data.data() + i * sizeof(half), sizeof(half));
          values[i] = Bf16ToF32(half);
          break;
        default:
          return InFile(absl::UnimplementedError(
              absl::StrCat("tensor '", name, "': type ", GgmlTypeName(tensor->type),
                           " is not supported for a vector; supported are F32, F16 and BF16")));
      }
    }
    return values;
  }

  absl::Status Vector(const std::string& name, int size, WeightVector& out) {
    BATON_ASSIGN_OR_RETURN(const std::vector<float> values, HostVector(name, size));
    const size_t bytes = values.size() * sizeof(float);
    BATON_ASSIGN_OR_RETURN(BackendBuffer buffer, backend_.Allocate(bytes));
    backend_.Upload(values.data(), bytes, buffer.data());
    out = WeightVector(std::move(buffer));
    return absl::OkStatus();
  }
  absl::Status VectorIfPresent(const std::string& name, int size, WeightVector& out) {
    return Has(name) ? Vector(name, size, out) : absl::OkStatus();
  }

  // A tensor that was not taken would change the model in a way that is not computed here.
  absl::Status CheckNoneLeft() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (taken_.contains(tensor.name)) continue;
      return InFile(absl::UnimplementedError(absl::StrCat(
          "tensor '", tensor.name, "' is no part of the supported llama and qwen2 architectures")));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<const GgufTensor*> Find(const std::string& name,
                                         const std::vector<uint64_t>& dims) {
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
    return tensor;
  }

  absl::Status InFile(const absl::Status& status) const {
    return absl::Status(status.code(), absl::StrCat(file_.path(), ": ", status.message()));
  }

  const GgufFile& file_;
  Backend& backend_;
  absl::btree_set<std::string> taken_;
};

absl::StatusOr<LayerWeights> LoadLayer(TensorLoader& loader, const ModelConfig& config, int layer) {
  const std::string prefix = absl::StrCat("blk.", layer, ".");
  const int query_size = config.heads * config.head_dim;
  const int kv_size = config.kv_heads * config.head_dim;
  const int hidden = config.feed_forward_width;
  LayerWeights w;
  BATON_RETURN_IF_ERROR(loader.Vector(prefix + "attn_norm.weight", config.width, w.attention_norm));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_q.weight", query_size, config.width, w.query));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_k.weight", kv_size, config.width, w.key));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_v.weight", kv_size, config.width, w.value));
  BATON_RETURN_IF_ERROR(loader.VectorIfPresent(prefix + "attn_q.bias", query_size, w.query_bias));
  BATON_RETURN_IF_ERROR(loader.VectorIfPresent(prefix + "attn_k.bias", kv_size, w.key_bias));
  BATON_RETURN_IF_ERROR(loader.VectorIfPresent(prefix + "attn_v.bias", kv_size, w.value_bias));
  BATON_RETURN_IF_ERROR(
      loader.Matrix(prefix + "attn_output.weight", config.width, query_size, w.attention_output));
  BATON_RETURN_IF_ERROR(
      loader.Vector(prefix + "ffn_norm.weight", config.width, w.feed_forward_norm));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "ffn_gate.weight", hidden, config.width, w.gate));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "ffn_up.weight", hidden, config.width, w.up));
  BATON_RETURN_IF_ERROR(loader.Matrix(prefix + "ffn_down.weight", config.width, hidden, w.down));
  return w;
}

}  // namespace

absl::StatusOr<ModelWeights> ModelWeights::Load(const GgufFile& file, const ModelConfig& config,
                                                Backend& backend,
                                                absl::FunctionRef<void(double)> progress) {
  TensorLoader loader(file, backend);
  ModelWeights w;
  progress(0);
  BATON_RETURN_IF_ERROR(
      loader.Matrix("token_embd.weight", config.vocab_size, config.width, w.embedding));
  for (int layer = 0; layer < config.layers; ++layer) {
    BATON_ASSIGN_OR_RETURN(LayerWeights weights, LoadLayer(loader, config, layer));
    w.layers.push_back(std::move(weights));
    progress((layer + 1.0) / (config.layers + 1.0));
  }
  BATON_RETURN_IF_ERROR(loader.Vector("output_norm.weight", config.width, w.output_norm));
  if (loader.Has("output.weight")) {
    BATON_RETURN_IF_ERROR(
        loader.Matrix("output.weight", config.vocab_size, config.width, w.output));
  }
  if (loader.Has("rope_freqs.weight")) {
    BATON_ASSIGN_OR_RETURN(w.rope_divisors,
                           loader.HostVector("rope_freqs.weight", config.rope_dim / 2));
    for (const float divisor : w.rope_divisors) {
      if (divisor >= 1e-6f && divisor <= 1e6f) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": tensor 'rope_freqs.weight' holds ", divisor, ", no divisor"));
    }
  }
  BATON_RETURN_IF_ERROR(loader.CheckNoneLeft());
  progress(1);
  return w;
}

}  // namespace baton
