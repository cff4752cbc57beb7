#include "tests/support/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "tests/support/ggml_blocks.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

constexpr float kLeastHalf = 0x1p-24f;           // F16's least denormal
constexpr float kMostDenormalHalf = 0x3ffp-24f;  // F16's largest denormal
constexpr float kMostHalf = 65504;

struct Shape {
  int layers;
  int width;
  int feed_forward;
  int heads;
  int kv_heads;
  int head_dim;
};

Shape UsualShapeFor(const TinyModelOptions& options) {
  const std::vector<GgmlType>& types = options.types;
  if (std::any_of(types.begin(), types.end(), IsKQuant)) {
    return {1, 256, options.qwen2 ? 256 : 32, 2, 1, 16};
  }
  if (std::all_of(types.begin(), types.end(), IsFloatType)) return {1, 44, 34, 2, 1, 48};
  return {1, 96, 32, 2, 1, 16};
}

Shape ShapeFor(const TinyModelOptions& options) {
  Shape shape = UsualShapeFor(options);
  if (options.head_dim > 0) shape.head_dim = options.head_dim;
  return shape;
}

// The type itself, or for rows that are not whole blocks of it a simpler type of as many bits.
GgmlType TypeFor(GgmlType type, int columns) {
  if (!IsKQuant(type) || columns % 256 == 0) return type;
  return type == GgmlType::kQ4_K   ? GgmlType::kQ5_0
         : type == GgmlType::kQ5_K ? GgmlType::kQ5_1
                                   : GgmlType::kQ8_0;
}

enum class RowKind { kHighest, kLowest, kEither, kAlternating, kZero, kByBlocks };

class Maker {
 public:
  explicit Maker(const TinyModelOptions& options)
      : options_(options), shape_(ShapeFor(options)), random_(options.seed) {}

  GgufFile Make() {
    const std::string arch = options_.qwen2 ? "qwen2" : "llama";
    builder_.Text("general.architecture", arch);
    const auto key = [&](const char* name, int value) {
      builder_.Uint32(absl::StrCat(arch, ".", name), static_cast<uint32_t>(value));
    };
    key("block_count", shape_.layers);
    key("embedding_length", shape_.width);
    key("feed_forward_length", shape_.feed_forward);
    key("context_length", 4096);
    key("attention.head_count", shape_.heads);
    key("attention.head_count_kv", shape_.kv_heads);
    key("attention.key_length", shape_.head_dim);
    key("attention.value_length", shape_.head_dim);
    key("rope.dimension_count", shape_.head_dim);
    constexpr uint32_t kFloat32 = 6;
    builder_.Scalar(absl::StrCat(arch, ".rope.freq_base"), kFloat32, 10000.0f);
    builder_.Scalar(absl::StrCat(arch, ".attention.layer_norm_rms_epsilon"), kFloat32, 1e-5f);

    Matrix("token_embd", kTinyVocabSize, shape_.width);
    for (int layer = 0; layer < shape_.layers; ++layer) Layer(absl::StrCat("blk.", layer, "."));
    Gain("output_norm", shape_.width);
    if (options_.qwen2) Matrix("output", kTinyVocabSize, shape_.width);
    auto file = GgufFile::Parse(builder_.Build(), "tiny.gguf");
    BATON_CHECK(file.ok(), "the written file must be valid");
    return *std::move(file);
  }

 private:
  void Layer(const std::string& prefix) {
    const int queries = shape_.heads * shape_.head_dim;
    const int kv = shape_.kv_heads * shape_.head_dim;
    Gain(prefix + "attn_norm", shape_.width);
    Matrix(prefix + "attn_q", queries, shape_.width);
    Matrix(prefix + "attn_k", kv, shape_.width);
    Matrix(prefix + "attn_v", kv, shape_.width);
    if (options_.qwen2) {
      Bias(prefix + "attn_q", queries);
      Bias(prefix + "attn_k", kv);
      Bias(prefix + "attn_v", kv);
    }
    Matrix(prefix + "attn_output", shape_.width, queries);
    Gain(prefix + "ffn_norm", shape_.width);
    Matrix(prefix + "ffn_gate", shape_.feed_forward, shape_.width);
    Matrix(prefix + "ffn_up", shape_.feed_forward, shape_.width);
    Matrix(prefix + "ffn_down", shape_.width, shape_.feed_forward);
  }

  int Below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  float Uniform(float from, float to) {
    return from + (to - from) * static_cast<float>(random_() % 65536) / 65536.0f;
  }

  void Vector(const std::string& name, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += EncodeFloat(GgmlType::kF32, value);
    builder_.TensorWithData(name, {values.size()}, 0, bytes);
  }

  void Bias(const std::string& name, int size) {
    std::vector<float> values;
    for (int i = 0; i < size; ++i) values.push_back(Uniform(-1, 1));
    Vector(name + ".bias", values);
  }

  void Gain(const std::string& name, int size) {
    std::vector<float> values;
    float size_of_block = 1;
    for (int i = 0; i < size; ++i) {
      if (options_.contents == TinyContents::kTame) {
        values.push_back(Uniform(0.8f, 1.2f));
        continue;
      }
      if (i % 32 == 0) {
        // Around 2^-100 a block of int8 activations becomes zero.
        constexpr float kSizes[] = {1, 1, 1, 1, 1, 0x1p-98f, 0x1p-102f, 0};
        size_of_block = i == 0 ? 1.0f : kSizes[Below(8)];
      }
      values.push_back(Below(4) == 0 ? -size_of_block : size_of_block);
    }
    Vector(name + ".weight", values);
  }

  void Matrix(const std::string& name, int rows, int columns) {
    const GgmlType type = TypeFor(options_.types[matrices_++ % options_.types.size()], columns);
    std::string bytes;
    for (int row = 0; row < rows; ++row) {
      // The first tokens have all kinds too, so that a few tokens suffice to use all.
      kind_ = static_cast<RowKind>((row + Below(2)) % 6);
      if (IsFloatType(type)) {
        for (int i = 0; i < columns; ++i) bytes += EncodeFloat(type, FloatValue(name, type, i));
        continue;
      }
      block_ = UsualBlock(name, type, columns);
      for (int i = 0; i < columns; i += IsKQuant(type) ? 256 : 32) {
        bytes += EncodeBlock(type, NextBlock(name, type, columns));
      }
    }
    builder_.TensorWithData(name + ".weight",
                            {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
                            static_cast<uint32_t>(type), bytes);
  }

  // The largest magnitude of the usual values of a matrix.
  float Size(const std::string& name, int columns) const {
    if (options_.contents == TinyContents::kTame) {
      return absl::StrContains(name, "token_embd") ? 1.0f
                                                   : 2.0f / std::sqrt(static_cast<float>(columns));
    }
    // Small enough that attention scores are not all decided by one key.
    if (absl::StrContains(name, "attn_q") || absl::StrContains(name, "attn_k")) return 1.0f / 16;
    return 1;
  }
  // Whether this matrix can have F16's largest scales in kHuge without causing an infinity later.
  static bool MayBeHuge(const std::string& name) {
    return !absl::StrContains(name, "attn_output") && !absl::StrContains(name, "ffn_");
  }

  float FloatValue(const std::string& name, GgmlType type, int column) {
    float size = Size(name, 64);
    if (options_.contents == TinyContents::kTame) return Uniform(-size, size);
    if (options_.contents == TinyContents::kHuge && MayBeHuge(name)) {
      size = type == GgmlType::kF16 ? kMostHalf : 1e9f;
    }
    const float sign = Below(2) == 0 ? -1.0f : 1.0f;
    switch (kind_) {
      case RowKind::kHighest:
        return size;
      case RowKind::kLowest:
        return -size;
      case RowKind::kEither:
        return sign * size;
      case RowKind::kAlternating:
        return column % 2 == 0 ? size : -size;
      case RowKind::kZero:
        return sign * 0.0f;
      case RowKind::kByBlocks: {
        const float values[] = {0,         kLeastHalf, kMostDenormalHalf, 1e-40f,
                                0x1p-126f, size,       Uniform(0, size)};
        return sign * values[Below(7)];
      }
    }
    return 0;
  }

  // A block whose largest code gives Size, with minimums that make values as often negative.
  BlockContents UsualBlock(const std::string& name, GgmlType type, int columns) {
    const CodeRange codes = CodesOf(type);
    const int span = codes.lowest < 0 ? -codes.lowest : (codes.highest + 1) / 2;
    const float size = Size(name, columns);
    BlockContents block;
    int part = 1;
    if (IsKQuant(type)) {
      // A power of two, so that the minimums below are exact.
      part = type == GgmlType::kQ6_K ? 64 : 16;
      block.part_scales.fill(part);
      block.part_mins.fill(codes.highest);
    }
    // A power of two, so that both signs of a row have the same magnitude.
    block.scale = std::exp2(std::floor(std::log2(size / static_cast<float>(part * span))));
    if (options_.contents == TinyContents::kTame) {
      block.scale *= Uniform(0.5f, 1.0f);
    } else if (options_.contents == TinyContents::kHuge && MayBeHuge(name)) {
      block.scale = kMostHalf;
    }
    block.min = IsKQuant(type) ? block.scale * static_cast<float>(part) / 2
                               : -block.scale * static_cast<float>(codes.highest) / 2;
    block.min = std::clamp(block.min, -kMostHalf, kMostHalf);
    return block;
  }

  BlockContents NextBlock(const std::string& name, GgmlType type, int columns) {
    BlockContents block = block_;
    RowKind kind = kind_;
    if (options_.contents == TinyContents::kTame) {
      block = UsualBlock(name, type, columns);
      for (int& scale : block.part_scales) scale -= Below(scale / 2 + 1);
      for (int& min : block.part_mins) min -= Below(min / 2 + 1);
      kind = RowKind::kByBlocks;
    } else if (kind == RowKind::kZero) {
      block.scale = Below(2) == 0 ? 0.0f : -0.0f;
      block.min = Below(2) == 0 ? 0.0f : -0.0f;
    } else if (kind == RowKind::kByBlocks) {
      Distort(type, block);
      kind = static_cast<RowKind>(Below(6));
    }
    FillCodes(type, kind, block);
    return block;
  }

  void Distort(GgmlType type, BlockContents& block) {
    const float scales[] = {0,           -0.0f,        kLeastHalf, kMostDenormalHalf,
                            block.scale, -block.scale, block.scale};
    const float mins[] = {0, -0.0f, -kLeastHalf, block.min, -block.min};
    block.scale = scales[Below(7)];
    block.min = mins[Below(5)];
    if (type == GgmlType::kQ6_K) {
      constexpr int kScales[] = {-128, 127, 0, 1, -1, 64};
      for (int& scale : block.part_scales) scale = kScales[Below(6)];
    } else if (IsKQuant(type)) {
      constexpr int kScales[] = {0, 1, 31, 32, 63};
      for (int& scale : block.part_scales) scale = kScales[Below(5)];
      for (int& min : block.part_mins) min = kScales[Below(5)];
    }
  }

  void FillCodes(GgmlType type, RowKind kind, BlockContents& block) {
    const CodeRange range = CodesOf(type);
    const int count = IsKQuant(type) ? 256 : 32;
    for (int i = 0; i < count; ++i) {
      int& code = block.codes[static_cast<size_t>(i)];
      switch (kind) {
        case RowKind::kHighest:
          code = range.highest;
          break;
        case RowKind::kLowest:
          code = range.lowest;
          break;
        case RowKind::kEither:
          code = Below(2) == 0 ? range.highest : range.lowest < 0 ? -range.highest : 0;
          break;
        case RowKind::kAlternating:
          code = i % 2 == 0 ? range.highest : range.lowest;
          break;
        default:
          code = range.lowest + Below(range.highest - range.lowest + 1);
      }
    }
  }

  const TinyModelOptions& options_;
  const Shape shape_;
  std::mt19937 random_;
  GgufBuilder builder_;
  size_t matrices_ = 0;
  RowKind kind_ = RowKind::kHighest;  // kind of the row that is being made
  BlockContents block_;               // contents of the row's blocks
};

}  // namespace

const char* TinyContentsName(TinyContents contents) {
  switch (contents) {
    case TinyContents::kTame:
      return "tame";
    case TinyContents::kExtreme:
      return "extreme";
    case TinyContents::kHuge:
      return "huge";
  }
  return "";
}

GgufFile MakeTinyModel(const TinyModelOptions& options) { return Maker(options).Make(); }

}  // namespace baton
