#include "tests/support/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "tests/support/ggml_blocks.h"

namespace baton {
namespace {

constexpr int kPanel = 64;
constexpr int kTileRows = 4;

// Computes out[r][0..64) for `rows` <= 4 rows of `in`: the sum over k of in[r][k] * panel[k].
[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void MultiplyPanel(
    const float* in, int rows, int columns, const float* panel, float (*out)[kPanel]) {
  float sums[kTileRows][kPanel] = {};
  for (int k = 0; k < columns; ++k) {
    for (int r = 0; r < rows; ++r) {
      const float x = in[r * columns + k];
      for (int n = 0; n < kPanel; ++n) sums[r][n] += x * panel[k * kPanel + n];
    }
  }
  std::memcpy(out, sums, sizeof(sums));
}

// Calls work(i) for all i < count on two threads.
template <class Work>
void OnTwoThreads(int count, const Work& work) {
  std::thread other([&] {
    for (int i = 1; i < count; i += 2) work(i);
  });
  for (int i = 0; i < count; i += 2) work(i);
  other.join();
}

template <class T>
T ValueOrDie(absl::StatusOr<T> value) {
  BATON_CHECK(value.ok(), "the file must have SmolLM2's metadata");
  return *std::move(value);
}

}  // namespace

ReferenceModel::Matrix ReferenceModel::LoadMatrix(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.FindTensor(name);
  BATON_CHECK(tensor != nullptr && tensor->dims.size() == 2, "the tensor must be a matrix");
  Matrix matrix{static_cast<int>(tensor->dims[1]), static_cast<int>(tensor->dims[0]), {}};
  const std::vector<float> values = DequantiseBlocks(tensor->type, tensor->data);
  const int panels = (matrix.rows + kPanel - 1) / kPanel;
  matrix.panels.resize(static_cast<size_t>(panels) * matrix.columns * kPanel);
  for (int row = 0; row < matrix.rows; ++row) {
    float* panel =
        matrix.panels.data() + static_cast<size_t>(row / kPanel) * matrix.columns * kPanel;
    for (int k = 0; k < matrix.columns; ++k) {
      panel[k * kPanel + row % kPanel] = values[static_cast<size_t>(row) * matrix.columns + k];
    }
  }
  return matrix;
}

ReferenceModel::ReferenceModel(const GgufFile& file) {
  BATON_CHECK(ValueOrDie(file.GetString("general.architecture")) == "llama" &&
                  file.FindTensor("output.weight") == nullptr,
              "the architecture of SmolLM2");
  layers_ = static_cast<int>(ValueOrDie(file.GetUint("llama.block_count")));
  width_ = static_cast<int>(ValueOrDie(file.GetUint("llama.embedding_length")));
  heads_ = static_cast<int>(ValueOrDie(file.GetUint("llama.attention.head_count")));
  kv_heads_ = static_cast<int>(ValueOrDie(file.GetUint("llama.attention.head_count_kv")));
  head_dim_ = file.Has("llama.attention.key_length")
                  ? static_cast<int>(ValueOrDie(file.GetUint("llama.attention.key_length")))
                  : width_ / heads_;
  rope_base_ = ValueOrDie(file.GetFloat("llama.rope.freq_base"));
  epsilon_ =
      static_cast<float>(ValueOrDie(file.GetFloat("llama.attention.layer_norm_rms_epsilon")));
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.dims.size() == 2) {
      matrices_[tensor.name] = LoadMatrix(file, tensor.name);
    } else {
      vectors_[tensor.name] = DequantiseBlocks(tensor.type, tensor.data);
    }
  }
  vocab_size_ = matrices_.at("token_embd.weight").rows;
}

std::vector<float> ReferenceModel::Product(const std::vector<float>& in,
                                           const std::string& weight) const {
  const Matrix& matrix = matrices_.at(weight);
  const int tokens = static_cast<int>(in.size()) / matrix.columns;
  std::vector<float> out(static_cast<size_t>(tokens) * matrix.rows);
  OnTwoThreads((matrix.rows + kPanel - 1) / kPanel, [&](int panel) {
    const float* weights =
        matrix.panels.data() + static_cast<size_t>(panel) * matrix.columns * kPanel;
    const int first = panel * kPanel;
    const int count = std::min(kPanel, matrix.rows - first);
    for (int token = 0; token < tokens; token += kTileRows) {
      const int rows = std::min(kTileRows, tokens - token);
      float sums[kTileRows][kPanel];
      MultiplyPanel(in.data() + static_cast<size_t>(token) * matrix.columns, rows, matrix.columns,
                    weights, sums);
      for (int r = 0; r < rows; ++r) {
        std::memcpy(out.data() + static_cast<size_t>(token + r) * matrix.rows + first, sums[r],
                    static_cast<size_t>(count) * sizeof(float));
      }
    }
  });
  return out;
}

std::vector<float> ReferenceModel::Norm(const std::vector<float>& in,
                                        const std::string& gain) const {
  const std::vector<float>& g = vectors_.at(gain);
  std::vector<float> out(in.size());
  for (size_t row = 0; row < in.size(); row += width_) {
    float sum = 0;
    for (int i = 0; i < width_; ++i) sum += in[row + i] * in[row + i];
    const float root = std::sqrt(sum / static_cast<float>(width_) + epsilon_);
    for (int i = 0; i < width_; ++i) out[row + i] = in[row + i] / root * g[i];
  }
  return out;
}

void ReferenceModel::Rotate(std::vector<float>& heads, int width) const {
  const int tokens = static_cast<int>(heads.size()) / width;
  for (int token = 0; token < tokens; ++token) {
    for (int i = 0; i < width; i += 2) {
      const double angle = token * std::pow(rope_base_, -double(i % head_dim_) / head_dim_);
      const float c = static_cast<float>(std::cos(angle));
      const float s = static_cast<float>(std::sin(angle));
      float* pair = heads.data() + static_cast<size_t>(token) * width + i;
      const float even = pair[0];
      pair[0] = even * c - pair[1] * s;
      pair[1] = even * s + pair[1] * c;
    }
  }
}

std::vector<float> ReferenceModel::Attention(const std::vector<float>& queries,
                                             const std::vector<float>& keys,
                                             const std::vector<float>& values) const {
  const int query_width = heads_ * head_dim_;
  const int kv_width = kv_heads_ * head_dim_;
  const int tokens = static_cast<int>(keys.size()) / kv_width;
  std::vector<float> out(queries.size());
  OnTwoThreads(heads_, [&](int head) {
    const int kv_offset = head / (heads_ / kv_heads_) * head_dim_;
    std::vector<float> p(tokens);
    for (int t = 0; t < tokens; ++t) {
      const float* q = queries.data() + static_cast<size_t>(t) * query_width + head * head_dim_;
      float max = -INFINITY;
      for (int j = 0; j <= t; ++j) {
        const float* k = keys.data() + static_cast<size_t>(j) * kv_width + kv_offset;
        float dot = 0;
        for (int d = 0; d < head_dim_; ++d) dot += q[d] * k[d];
        p[j] = dot / std::sqrt(static_cast<float>(head_dim_));
        max = std::max(max, p[j]);
      }
      float sum = 0;
      for (int j = 0; j <= t; ++j) sum += p[j] = std::exp(p[j] - max);
      float* o = out.data() + static_cast<size_t>(t) * query_width + head * head_dim_;
      for (int j = 0; j <= t; ++j) {
        const float* v = values.data() + static_cast<size_t>(j) * kv_width + kv_offset;
        for (int d = 0; d < head_dim_; ++d) o[d] += p[j] / sum * v[d];
      }
    }
  });
  return out;
}

std::vector<float> ReferenceModel::Forward(const std::vector<int32_t>& tokens,
                                           ReferenceKv* kv) const {
  const auto add = [](std::vector<float>& to, const std::vector<float>& what) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += what[i];
  };
  const Matrix& embedding = matrices_.at("token_embd.weight");
  std::vector<float> x;
  for (const int32_t token : tokens) {
    const float* panel =
        embedding.panels.data() + static_cast<size_t>(token / kPanel) * width_ * kPanel;
    for (int k = 0; k < width_; ++k) x.push_back(panel[k * kPanel + token % kPanel]);
  }
  for (int layer = 0; layer < layers_; ++layer) {
    const std::string blk = absl::StrCat("blk.", layer, ".");
    std::vector<float> h = Norm(x, blk + "attn_norm.weight");
    std::vector<float> q = Product(h, blk + "attn_q.weight");
    std::vector<float> k = Product(h, blk + "attn_k.weight");
    const std::vector<float> v = Product(h, blk + "attn_v.weight");
    Rotate(q, heads_ * head_dim_);
    Rotate(k, kv_heads_ * head_dim_);
    if (kv != nullptr) {
      kv->keys.push_back(k);
      kv->values.push_back(v);
    }
    add(x, Product(Attention(q, k, v), blk + "attn_output.weight"));
    h = Norm(x, blk + "ffn_norm.weight");
    std::vector<float> gate = Product(h, blk + "ffn_gate.weight");
    const std::vector<float> up = Product(h, blk + "ffn_up.weight");
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(x, Product(gate, blk + "ffn_down.weight"));
  }
  return Product(Norm(x, "output_norm.weight"), "token_embd.weight");
}

}  // namespace baton
