#include "bench/model/random_model.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "bench/model/gguf_writer.h"
#include "bench/model/random_blocks.h"
#include "common/base/free_memory.h"
#include "common/base/status_macros.h"
#include "common/model/architectures.h"

namespace baton {
namespace {

constexpr ModelShape kShapes[] = {
    // Fields: name, architecture, layers, width, feed-forward width, heads, KV heads, head
    // dimension, vocabulary size, context length, RoPE base, norm epsilon, tied, window, experts,
    // experts used, expert width.
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 1e5f, 1e-5f, true},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 1e6f, 1e-6f, true},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1e6f, 1e-6f, true},
    {"gemma-3-1b", "gemma3", 26, 1152, 6912, 4, 1, 256, 262144, 32768, 1e6f, 1e-6f, true, 512},
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 5e5f, 1e-5f, true},
    {"llama-3.2-3b", "llama", 28, 3072, 8192, 24, 8, 128, 128256, 131072, 5e5f, 1e-5f, true},
    {"llama-3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 5e5f, 1e-5f, false},
    // The first 4 of 48 layers: the whole model needs more memory than most machines have.
    {"qwen3-30b-a3b-4-layers", "qwen3moe", 4, 2048, 6144, 32, 4, 128, 151936, 40960, 1e6f, 1e-6f,
     false, 0, 128, 8, 768},
};

constexpr GgmlType kTypes[] = {GgmlType::kF32,  GgmlType::kF16,  GgmlType::kBf16, GgmlType::kQ8_0,
                               GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ5_0, GgmlType::kQ5_1,
                               GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K};

constexpr uint32_t kNormalToken = 1;
constexpr uint32_t kControlToken = 3;

// Standard deviation of a matrix's weights. It keeps the variance of the residual stream about
// constant over any number of layers.
double DeviationOf(uint64_t columns) { return 0.5 / std::sqrt(static_cast<double>(columns)); }

std::vector<GgufTensorEntry> TensorsOf(const ModelShape& shape, GgmlType type) {
  std::vector<GgufTensorEntry> tensors;
  const auto matrix = [&](const std::string& name, int rows, int columns) {
    tensors.push_back({name, type, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)}});
  };
  const auto vector = [&](const std::string& name, int size) {
    tensors.push_back({name, GgmlType::kF32, {static_cast<uint64_t>(size)}});
  };
  const auto experts = [&](const std::string& name, int rows, int columns) {
    matrix(name, rows, columns);
    tensors.back().dims.push_back(static_cast<uint64_t>(shape.experts));
  };
  const Architecture& architecture = *FindArchitecture(shape.architecture);
  const bool norms_after = architecture.norm_places == NormPlaces::kAround;
  const int query_size = shape.heads * shape.head_dim;
  const int kv_size = shape.kv_heads * shape.head_dim;
  matrix("token_embd.weight", shape.vocab_size, shape.width);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = absl::StrCat("blk.", layer, ".");
    vector(prefix + "attn_norm.weight", shape.width);
    matrix(prefix + "attn_q.weight", query_size, shape.width);
    matrix(prefix + "attn_k.weight", kv_size, shape.width);
    matrix(prefix + "attn_v.weight", kv_size, shape.width);
    if (shape.architecture == absl::string_view("qwen2")) {
      vector(prefix + "attn_q.bias", query_size);
      vector(prefix + "attn_k.bias", kv_size);
      vector(prefix + "attn_v.bias", kv_size);
    }
    if (architecture.qk_norm == QkNorm::kHead) {
      vector(prefix + "attn_q_norm.weight", shape.head_dim);
      vector(prefix + "attn_k_norm.weight", shape.head_dim);
    }
    matrix(prefix + "attn_output.weight", shape.width, query_size);
    if (norms_after) vector(prefix + "post_attention_norm.weight", shape.width);
    vector(prefix + "ffn_norm.weight", shape.width);
    if (shape.experts > 0) {
      matrix(prefix + "ffn_gate_inp.weight", shape.experts, shape.width);
      tensors.back().type = GgmlType::kF32;
      experts(prefix + "ffn_gate_exps.weight", shape.expert_width, shape.width);
      experts(prefix + "ffn_up_exps.weight", shape.expert_width, shape.width);
      experts(prefix + "ffn_down_exps.weight", shape.width, shape.expert_width);
    } else {
      matrix(prefix + "ffn_gate.weight", shape.feed_forward_width, shape.width);
      matrix(prefix + "ffn_up.weight", shape.feed_forward_width, shape.width);
      matrix(prefix + "ffn_down.weight", shape.width, shape.feed_forward_width);
    }
    if (norms_after) vector(prefix + "post_ffw_norm.weight", shape.width);
  }
  vector("output_norm.weight", shape.width);
  if (!shape.tied) matrix("output.weight", shape.vocab_size, shape.width);
  return tensors;
}

// Adds a byte-level vocabulary: the printable ASCII characters, one merge, and words that no merge
// produces.
void AddVocabulary(int size, GgufMetadata& metadata) {
  std::vector<std::string> tokens;
  for (char c = '!'; c <= '~'; ++c) tokens.push_back(std::string(1, c));
  tokens.push_back("ab");
  while (static_cast<int>(tokens.size()) < size - 1) {
    tokens.push_back(absl::StrCat("word", tokens.size()));
  }
  tokens.push_back("<|endoftext|>");
  std::vector<int32_t> kinds(tokens.size(), kNormalToken);
  kinds.back() = kControlToken;
  metadata.Text("tokenizer.ggml.model", "gpt2");
  metadata.Text("tokenizer.ggml.pre", "smollm");
  metadata.Texts("tokenizer.ggml.tokens", tokens);
  metadata.Int32s("tokenizer.ggml.token_type", kinds);
  metadata.Texts("tokenizer.ggml.merges", {"a b"});
  for (const char* role : {"bos", "eos", "padding"}) {
    metadata.Uint32(absl::StrCat("tokenizer.ggml.", role, "_token_id"),
                    static_cast<uint32_t>(size - 1));
  }
}

GgufMetadata MetadataOf(const ModelShape& shape) {
  GgufMetadata metadata;
  metadata.Text("general.architecture", shape.architecture);
  metadata.Text("general.name", absl::StrCat(shape.name, " (random)"));
  metadata.Uint32("general.quantization_version", 2);
  const std::string prefix = absl::StrCat(shape.architecture, ".");
  const auto number = [&](const char* name, int value) {
    metadata.Uint32(prefix + name, static_cast<uint32_t>(value));
  };
  number("block_count", shape.layers);
  number("context_length", shape.context_length);
  number("embedding_length", shape.width);
  number("feed_forward_length", shape.feed_forward_width);
  number("attention.head_count", shape.heads);
  number("attention.head_count_kv", shape.kv_heads);
  for (const char* of :
       {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    number(of, shape.head_dim);
  }
  number("vocab_size", shape.vocab_size);
  if (shape.experts > 0) {
    number("expert_count", shape.experts);
    number("expert_used_count", shape.experts_used);
    number("expert_feed_forward_length", shape.expert_width);
  }
  if (shape.window > 0) number("attention.sliding_window", shape.window);
  metadata.Float32(prefix + "rope.freq_base", shape.rope_base);
  metadata.Float32(prefix + "attention.layer_norm_rms_epsilon", shape.norm_epsilon);
  AddVocabulary(shape.vocab_size, metadata);
  return metadata;
}

absl::Status WriteTensor(const GgufTensorEntry& tensor, uint64_t seed, GgufWriter& writer) {
  if (absl::string_view(tensor.name).find("norm") != absl::string_view::npos) {
    const std::vector<float> ones(tensor.dims[0], 1.0f);
    BATON_RETURN_IF_ERROR(writer.WriteData(
        {reinterpret_cast<const uint8_t*>(ones.data()), ones.size() * sizeof(float)}));
    return writer.EndTensor();
  }
  const size_t total = tensor.size_bytes();
  const size_t block_bytes = GgmlBlockOf(tensor.type)->bytes;
  const size_t piece = (size_t{1} << 20) / block_bytes * block_bytes;
  std::vector<uint8_t> bytes;
  for (size_t done = 0; done < total; done += bytes.size()) {
    bytes.resize(std::min(piece, total - done));
    FillRandomBlocks(tensor.type, DeviationOf(tensor.dims[0]), seed + done, absl::MakeSpan(bytes));
    BATON_RETURN_IF_ERROR(writer.WriteData(bytes));
  }
  return writer.EndTensor();
}

absl::Status WriteTo(std::FILE* file, const std::string& path, const ModelShape& shape,
                     GgmlType type) {
  const std::vector<GgufTensorEntry> tensors = TensorsOf(shape, type);
  GgufWriter writer(file, path);
  BATON_RETURN_IF_ERROR(writer.WriteHeader(MetadataOf(shape), tensors));
  for (size_t i = 0; i < tensors.size(); ++i) {
    BATON_RETURN_IF_ERROR(WriteTensor(tensors[i], uint64_t{i} << 40, writer));
  }
  return absl::OkStatus();
}

absl::Status SystemError(const std::string& path, const char* what) {
  const int error = errno;
  return absl::Status(absl::ErrnoToStatusCode(error),
                      absl::StrCat(path, ": ", what, " (", strerrordesc_np(error),
                                   "); free space there or choose another path"));
}

absl::Status CheckRows(const ModelShape& shape, GgmlType type) {
  const int block = static_cast<int>(GgmlBlockOf(type)->elements);
  const int hidden = shape.experts > 0 ? shape.expert_width : shape.feed_forward_width;
  for (const int columns : {shape.width, shape.heads * shape.head_dim, hidden}) {
    if (columns % block == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--weights ", absl::AsciiStrToLower(GgmlTypeName(type)), ": has blocks of ",
                     block, " weights, and ", shape.name, " has rows of ", columns,
                     ", not a multiple of that; choose another type"));
  }
  return absl::OkStatus();
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status WriteAndClose(std::unique_ptr<std::FILE, CloseFile> file, const std::string& path,
                           const ModelShape& shape, GgmlType type) {
  BATON_RETURN_IF_ERROR(WriteTo(file.get(), path, shape, type));
  if (std::fclose(file.release()) != 0) return SystemError(path, "cannot be written");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelShape> FindModelShape(const std::string& name) {
  std::string known;
  for (const ModelShape& shape : kShapes) {
    if (name == shape.name) return shape;
    absl::StrAppend(&known, known.empty() ? "" : ", ", shape.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("--shape: '", name, "' is not one of ", known));
}

absl::StatusOr<GgmlType> ParseWeightsType(const std::string& name) {
  std::string known;
  for (const GgmlType type : kTypes) {
    const std::string type_name = absl::AsciiStrToLower(GgmlTypeName(type));
    if (absl::AsciiStrToLower(name) == type_name) return type;
    absl::StrAppend(&known, known.empty() ? "" : ", ", type_name);
  }
  return absl::InvalidArgumentError(absl::StrCat("--weights: '", name, "' is not one of ", known));
}

absl::Status WriteRandomModel(const ModelShape& shape, GgmlType type, const std::string& path) {
  BATON_RETURN_IF_ERROR(CheckRows(shape, type));
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wbe"));
  if (file == nullptr) return SystemError(path, "cannot be opened for writing");
  return WriteAndClose(std::move(file), path, shape, type);
}

absl::StatusOr<RandomModelFile> RandomModelFile::Create(const ModelShape& shape, GgmlType type) {
  BATON_RETURN_IF_ERROR(CheckRows(shape, type));
  uint64_t bytes = 0;
  for (const GgufTensorEntry& tensor : TensorsOf(shape, type)) bytes += tensor.size_bytes();
  const uint64_t free = FreeMemoryBytes();
  if (free > 0 && 2 * bytes > free) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a random ", shape.name, " takes ", bytes >> 20,
                     " MiB, and twice that while it loads, but only ", free >> 20,
                     " MiB are free; choose another --shape or --weights, or write the model to a "
                     "file with --write-gguf"));
  }
  RandomModelFile model(memfd_create(shape.name, MFD_CLOEXEC));
  const int copy = model.fd_ < 0 ? -1 : dup(model.fd_);
  if (copy < 0) return SystemError("the random model", "cannot be made");
  std::unique_ptr<std::FILE, CloseFile> file(fdopen(copy, "wb"));
  if (file == nullptr) return SystemError("the random model", "cannot be made");
  BATON_RETURN_IF_ERROR(WriteAndClose(std::move(file), "the random model", shape, type));
  return model;
}

RandomModelFile::~RandomModelFile() {
  if (fd_ >= 0) close(fd_);
}

std::string RandomModelFile::path() const { return absl::StrCat("/proc/self/fd/", fd_); }

}  // namespace baton
