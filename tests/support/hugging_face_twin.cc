#include "tests/support/hugging_face_twin.h"

#include <cstring>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "common/base/check.h"
#include "tests/support/safetensors_builder.h"

namespace baton {
namespace {

using Form = TwinName::Form;

// A tensor of the folder.
struct Theirs {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

std::string DtypeOf(const GgufTensor& tensor) {
  BATON_CHECK(tensor.type == GgmlType::kF32 || tensor.type == GgmlType::kF16 ||
                  tensor.type == GgmlType::kBf16,
              "the tensor must have a float type");
  return GgmlTypeName(tensor.type);
}

// "blk.3.attn_q.weight" gives "blk.#.attn_q.weight" and "3".
std::pair<std::string, std::string> SplitLayer(const std::string& name) {
  std::vector<std::string> parts = absl::StrSplit(name, '.');
  if (parts[0] != "blk") return {name, ""};
  const std::string layer = parts[1];
  parts[1] = "#";
  return {absl::StrJoin(parts, "."), layer};
}

std::string Halves(const std::string& bytes, uint64_t rows, uint64_t head_rows) {
  BATON_CHECK(head_rows > 0 && rows % head_rows == 0, "rows must be whole heads");
  const uint64_t row_bytes = bytes.size() / rows;
  std::string out(bytes.size(), '\0');
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t head = row / head_rows;
    const uint64_t pair = row % head_rows / 2;
    const uint64_t to = head * head_rows + (row % 2) * (head_rows / 2) + pair;
    std::memcpy(&out[to * row_bytes], &bytes[row * row_bytes], row_bytes);
  }
  return out;
}

std::string MinusOne(std::string bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, &bytes[at], sizeof(value));
    value -= 1;
    std::memcpy(&bytes[at], &value, sizeof(value));
  }
  return bytes;
}

// The matrices of both, each of the first before that of the second.
std::string InTurns(const std::string& first, const std::string& second, uint64_t matrices) {
  const size_t bytes = first.size() / matrices;
  std::string out;
  for (uint64_t matrix = 0; matrix < matrices; ++matrix) {
    out += first.substr(matrix * bytes, bytes) + second.substr(matrix * bytes, bytes);
  }
  return out;
}

// MXFP4 rows as the folder has them: the codes of two columns that are neighbours in a byte. The
// exponents go to `scales`.
std::string Mxfp4Blocks(const std::string& rows, std::string& scales) {
  constexpr size_t kBlockBytes = 17;
  std::string blocks;
  for (size_t at = 0; at < rows.size(); at += kBlockBytes) {
    scales += rows[at];
    uint8_t codes[32];
    for (size_t j = 0; j < 16; ++j) {
      const auto both = static_cast<uint8_t>(rows[at + 1 + j]);
      codes[j] = both & 15;
      codes[j + 16] = both >> 4;
    }
    for (size_t j = 0; j < 32; j += 2) blocks += static_cast<char>(codes[j] | codes[j + 1] << 4);
  }
  return blocks;
}

void AddTheirs(const GgufFile& model, const GgufTensor& tensor, const TwinName& twin,
               const std::string& layer, uint64_t head_rows, std::vector<Theirs>& out) {
  const std::string name = absl::StrReplaceAll(twin.theirs, {{"#", layer}});
  std::vector<uint64_t> shape(tensor.dims.rbegin(), tensor.dims.rend());
  std::string bytes(tensor.data.begin(), tensor.data.end());
  if (twin.form == Form::kEachExpert) {
    const uint64_t experts = shape[0];
    const size_t each = bytes.size() / experts;
    shape.erase(shape.begin());
    for (uint64_t expert = 0; expert < experts; ++expert) {
      out.push_back({absl::StrReplaceAll(name, {{"@", absl::StrCat(expert)}}), DtypeOf(tensor),
                     shape, bytes.substr(expert * each, each)});
    }
    return;
  }
  if (twin.form == Form::kHalves) bytes = Halves(bytes, shape[0], head_rows);
  if (twin.form == Form::kMinusOne) bytes = MinusOne(bytes);
  if (!twin.second.empty()) {
    const GgufTensor* second = model.FindTensor(absl::StrReplaceAll(twin.second, {{"#", layer}}));
    const uint64_t matrices = shape.size() == 3 ? shape[0] : 1;
    // In turns every row of a stack of matrices, or value of a stack of vectors, is one by itself.
    const uint64_t parts = twin.in_turns ? shape[0] * shape[1] : matrices;
    bytes = InTurns(bytes, std::string(second->data.begin(), second->data.end()), parts);
    shape[twin.in_turns ? 1 : shape.size() - 2] *= 2;
  }
  if (twin.form == Form::kMxfp4) {
    std::string scales;
    const std::string blocks = Mxfp4Blocks(bytes, scales);
    shape.back() /= 32;
    out.push_back({name + "_scales", "U8", shape, scales});
    shape.push_back(16);
    out.push_back({name + "_blocks", "U8", shape, blocks});
    return;
  }
  out.push_back({name, DtypeOf(tensor), shape, bytes});
}

void Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

std::map<std::string, TwinName> CommonTwinNames(bool pairs) {
  const Form rotated = pairs ? Form::kHalves : Form::kSame;
  const std::string layer = "model.layers.#.";
  return {{"token_embd.weight", {"model.embed_tokens.weight"}},
          {"output_norm.weight", {"model.norm.weight"}},
          {"output.weight", {"lm_head.weight"}},
          {"blk.#.attn_norm.weight", {layer + "input_layernorm.weight"}},
          {"blk.#.ffn_norm.weight", {layer + "post_attention_layernorm.weight"}},
          {"blk.#.attn_q.weight", {layer + "self_attn.q_proj.weight", rotated}},
          {"blk.#.attn_k.weight", {layer + "self_attn.k_proj.weight", rotated}},
          {"blk.#.attn_q.bias", {layer + "self_attn.q_proj.bias", rotated}},
          {"blk.#.attn_k.bias", {layer + "self_attn.k_proj.bias", rotated}},
          {"blk.#.attn_v.weight", {layer + "self_attn.v_proj.weight"}},
          {"blk.#.attn_v.bias", {layer + "self_attn.v_proj.bias"}},
          {"blk.#.attn_q_norm.weight", {layer + "self_attn.q_norm.weight"}},
          {"blk.#.attn_k_norm.weight", {layer + "self_attn.k_norm.weight"}},
          {"blk.#.attn_output.weight", {layer + "self_attn.o_proj.weight"}},
          {"blk.#.ffn_gate.weight", {layer + "mlp.gate_proj.weight"}},
          {"blk.#.ffn_up.weight", {layer + "mlp.up_proj.weight"}},
          {"blk.#.ffn_down.weight", {layer + "mlp.down_proj.weight"}}};
}

TwinOptions GptOssTwin() {
  const std::string layer = "model.layers.#.";
  const std::string experts = layer + "mlp.experts.";
  TwinOptions options = {
      .names = CommonTwinNames(false),
      .config = R"({"model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 64,
                    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                    "head_dim": 32, "max_position_embeddings": 2048, "vocab_size": 300,
                    "rms_norm_eps": 1e-5, "rope_theta": 474.114013671875, "hidden_act": "silu",
                    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": false,
                                     "original_max_position_embeddings": 1379},
                    "num_local_experts": 4, "num_experts_per_tok": 2, "swiglu_limit": 7.0,
                    "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"],
                    "tie_word_embeddings": false, "torch_dtype": "bfloat16",
                    "quantization_config": {"quant_method": "mxfp4"}})"};
  std::map<std::string, TwinName>& names = options.names;
  names["blk.#.post_attention_norm.weight"] = {layer + "post_attention_layernorm.weight"};
  names["blk.#.attn_sinks.weight"] = {layer + "self_attn.sinks"};
  names["blk.#.attn_output.bias"] = {layer + "self_attn.o_proj.bias"};
  names["blk.#.ffn_gate_inp.weight"] = {layer + "mlp.router.weight"};
  names["blk.#.ffn_gate_inp.bias"] = {layer + "mlp.router.bias"};
  names["blk.#.ffn_gate_exps.weight"] = {.theirs = experts + "gate_up_proj",
                                         .form = Form::kMxfp4,
                                         .second = "blk.#.ffn_up_exps.weight",
                                         .in_turns = true};
  names["blk.#.ffn_gate_exps.bias"] = {.theirs = experts + "gate_up_proj_bias",
                                       .second = "blk.#.ffn_up_exps.bias",
                                       .in_turns = true};
  names["blk.#.ffn_down_exps.weight"] = {.theirs = experts + "down_proj", .form = Form::kMxfp4};
  names["blk.#.ffn_down_exps.bias"] = {experts + "down_proj_bias"};
  return options;
}

void WriteTwin(const GgufFile& model, const TwinOptions& options, const std::string& folder) {
  std::vector<Theirs> all;
  std::set<std::string> seconds;
  for (const auto& [ours, twin] : options.names) seconds.insert(twin.second);
  for (const GgufTensor& tensor : model.tensors()) {
    const auto [pattern, layer] = SplitLayer(tensor.name);
    if (seconds.contains(pattern)) continue;
    const auto twin = options.names.find(pattern);
    BATON_CHECK(twin != options.names.end(), "a name for each tensor");
    if (twin->second.form == Form::kDropped) continue;
    AddTheirs(model, tensor, twin->second, layer, options.head_rows, all);
  }
  Write(folder + "/config.json", options.config);
  Write(folder + "/tokenizer.json", "{}");
  std::vector<SafetensorsBuilder> shards(static_cast<size_t>(options.shards));
  std::vector<std::string> index;
  const auto shard_name = [&options](size_t shard) {
    return options.shards == 1
               ? std::string("model.safetensors")
               : absl::StrFormat("model-%05d-of-%05d.safetensors", shard + 1, options.shards);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t shard = i % shards.size();
    shards[shard].Add(all[i].name, all[i].dtype, all[i].shape, all[i].bytes);
    index.push_back(absl::StrCat("\"", all[i].name, "\":\"", shard_name(shard), "\""));
  }
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    Write(absl::StrCat(folder, "/", shard_name(shard)), shards[shard].Build());
  }
  if (options.shards == 1) return;
  Write(folder + "/model.safetensors.index.json",
        absl::StrCat("{\"weight_map\":{", absl::StrJoin(index, ","), "}}"));
}

}  // namespace baton
