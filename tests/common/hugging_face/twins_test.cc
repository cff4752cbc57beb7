// Folders and GGUF files of the same models: what the folder's keys and tensors are read as must be
// what the GGUF file has.
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "common/hugging_face/open_model_file.h"
#include "tests/support/ggml_blocks.h"
#include "tests/support/hugging_face_twin.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using Form = TwinName::Form;
using Names = std::map<std::string, TwinName>;

const std::string kArch = BATON_TEST_DATA "/arch/";

GgufFile OpenOrDie(const std::string& path) {
  auto file = OpenModelFile(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

// The value of a key, in any form that it has.
std::string ValueOf(const GgufFile& file, const std::string& key) {
  if (const auto value = file.GetUint(key); value.ok()) return absl::StrCat(*value);
  if (const auto value = file.GetFloat(key); value.ok()) return absl::StrCat("float ", *value);
  if (const auto value = file.GetString(key); value.ok()) return std::string(*value);
  if (const auto value = file.GetBools(key); value.ok()) {
    std::string text;
    for (const bool one : *value) text += one ? '1' : '0';
    return text;
  }
  return "missing";
}

constexpr const char* kKeys[] = {"block_count",
                                 "context_length",
                                 "embedding_length",
                                 "feed_forward_length",
                                 "vocab_size",
                                 "expert_count",
                                 "expert_used_count",
                                 "expert_feed_forward_length",
                                 "expert_shared_feed_forward_length",
                                 "attention.head_count",
                                 "attention.head_count_kv",
                                 "attention.layer_norm_rms_epsilon",
                                 "attention.key_length",
                                 "attention.value_length",
                                 "attention.sliding_window",
                                 "attention.sliding_window_pattern",
                                 "attention.scale",
                                 "attention.temperature_scale",
                                 "embedding_scale",
                                 "residual_scale",
                                 "logit_scale",
                                 "final_logit_softcapping",
                                 "rope.dimension_count",
                                 "rope.freq_base",
                                 "rope.freq_base_swa",
                                 "rope.scaling.type",
                                 "rope.scaling.factor",
                                 "rope.scaling.original_context_length",
                                 "rope.scaling.attn_factor",
                                 "rope.scaling.yarn_beta_fast",
                                 "rope.scaling.yarn_beta_slow",
                                 "rope.scaling.yarn_log_multiplier"};

// Keys that the folder's reader always writes. Where a file lacks one, it means the same.
constexpr const char* kAlwaysWritten[] = {"attention.key_length", "attention.value_length",
                                          "attention.sliding_window_pattern",
                                          "rope.dimension_count"};

void ExpectSameKeys(const GgufFile& folder, const GgufFile& twin) {
  const std::string architecture = ValueOf(twin, "general.architecture");
  EXPECT_EQ(ValueOf(folder, "general.architecture"), architecture);
  for (const char* name : kKeys) {
    const std::string key = absl::StrCat(architecture, ".", name);
    if (!twin.Has(key) && absl::c_linear_search(kAlwaysWritten, absl::string_view(name))) continue;
    EXPECT_EQ(ValueOf(folder, key), ValueOf(twin, key)) << key;
  }
}

std::vector<float> ValuesOf(const GgufFile& file, const GgufTensor& tensor) {
  const HeldTensor held = file.Hold(tensor);
  EXPECT_EQ(held->data.size(), tensor.size_bytes());
  return DequantiseBlocks(held->type, held->data);
}

void ExpectSameTensors(const GgufFile& folder, const GgufFile& twin) {
  EXPECT_EQ(folder.tensors().size(), twin.tensors().size());
  for (const GgufTensor& expected : twin.tensors()) {
    const GgufTensor* tensor = folder.FindTensor(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    EXPECT_EQ(tensor->dims, expected.dims) << expected.name;
    if (expected.type == GgmlType::kMxfp4) {
      EXPECT_EQ(tensor->type, expected.type) << expected.name;
      EXPECT_EQ(folder.Hold(*tensor)->data, twin.Hold(expected)->data) << expected.name;
      continue;
    }
    const std::vector<float> values = ValuesOf(folder, *tensor);
    const std::vector<float> theirs = ValuesOf(twin, expected);
    if (expected.name == "rope_freqs.weight") {  // computed, and in other ways
      for (size_t i = 0; i < values.size(); ++i) EXPECT_FLOAT_EQ(values[i], theirs[i]) << i;
    } else {
      EXPECT_EQ(values, theirs) << expected.name;
    }
  }
}

// A folder of the test data, in two shards, and its twin's name.
void ExpectFolderOf(const std::string& name, const std::string& twin_name, uint64_t file_type) {
  const GgufFile folder = OpenOrDie(kArch + name);
  const GgufFile twin = OpenOrDie(kArch + twin_name);
  ExpectSameKeys(folder, twin);
  ExpectSameTensors(folder, twin);
  for (const char* key :
       {"tokenizer.chat_template", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) {
    EXPECT_EQ(ValueOf(folder, key), ValueOf(twin, key)) << key;
  }
  EXPECT_FALSE(*folder.GetBool("tokenizer.ggml.add_bos_token"));
  EXPECT_EQ(*folder.GetInts("tokenizer.ggml.eos_token_ids"), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(*folder.GetUint("general.file_type"), file_type);
}

TEST(HuggingFaceTwins, ALlamaFolderInTwoShardsOfBf16) {
  ExpectFolderOf("llama-hf", "llama-hf-twin-f16.gguf", 32);
}

TEST(HuggingFaceTwins, AQwen3FolderInTwoShardsOfF32WithTheNewerRopeParameters) {
  ExpectFolderOf("qwen3-hf", "qwen3-hf-twin-f32.gguf", 0);
}

// Writes the twin's folder, reads it, and compares.
void ExpectTwins(const std::string& file, const TwinOptions& options) {
  SCOPED_TRACE(file);
  const GgufFile twin = OpenOrDie(absl::StrCat(BATON_TEST_DATA, "/", file));
  const TemporaryFolder written("twin");
  WriteTwin(twin, options, written.path());
  const GgufFile folder = OpenOrDie(written.path());
  ExpectSameKeys(folder, twin);
  ExpectSameTensors(folder, twin);
}

// The sizes that most of the tiny models have, and what else is given.
std::string Config(const std::string& model_type, int layers, int feed_forward, int heads,
                   int kv_heads, int vocabulary, const std::string& epsilon,
                   const std::string& more) {
  return absl::StrCat(R"({"hidden_size": 64, "max_position_embeddings": 2048, "model_type": ")",
                      model_type, R"(", "num_hidden_layers": )", layers,
                      R"(, "intermediate_size": )", feed_forward, R"(, "num_attention_heads": )",
                      heads, R"(, "num_key_value_heads": )", kv_heads, R"(, "vocab_size": )",
                      vocabulary, R"(, "rms_norm_eps": )", epsilon, ", ", more, "}");
}

Names With(Names names, const Names& more) {
  for (const auto& [ours, twin] : more) names[ours] = twin;
  return names;
}

TEST(HuggingFaceTwins, AQwen3FolderWithHeadsOfTheirOwnSize) {
  ExpectTwins("arch/qwen3-untied-f32.gguf",
              {.names = CommonTwinNames(false),
               .config = Config("qwen3", 2, 64, 3, 1, 304, "1e-6",
                                R"("head_dim": 32, "rope_theta": 1000000.0)"),
               .shards = 3});
}

TEST(HuggingFaceTwins, MixtralsExpertsAreStacked) {
  const std::string moe = "model.layers.#.block_sparse_moe.";
  ExpectTwins(
      "arch/llama-moe-f16.gguf",
      {.names =
           With(CommonTwinNames(true),
                {{"blk.#.ffn_gate_inp.weight", {moe + "gate.weight"}},
                 {"blk.#.ffn_gate_exps.weight", {moe + "experts.@.w1.weight", Form::kEachExpert}},
                 {"blk.#.ffn_up_exps.weight", {moe + "experts.@.w3.weight", Form::kEachExpert}},
                 {"blk.#.ffn_down_exps.weight", {moe + "experts.@.w2.weight", Form::kEachExpert}}}),
       .head_rows = 16,
       .config = Config("mixtral", 2, 32, 4, 2, 320, "1e-5",
                        R"("rope_theta": 1e6, "num_local_experts": 8, "num_experts_per_tok": 2,
                           "sliding_window": null)"),
       .shards = 2});
}

TEST(HuggingFaceTwins, Qwen3MoesExpertsAreStacked) {
  const std::string mlp = "model.layers.#.mlp.";
  ExpectTwins(
      "arch/qwen3moe-f16.gguf",
      {.names = With(
           CommonTwinNames(false),
           {{"blk.#.ffn_gate_inp.weight", {mlp + "gate.weight"}},
            {"blk.#.ffn_gate_exps.weight", {mlp + "experts.@.gate_proj.weight", Form::kEachExpert}},
            {"blk.#.ffn_up_exps.weight", {mlp + "experts.@.up_proj.weight", Form::kEachExpert}},
            {"blk.#.ffn_down_exps.weight",
             {mlp + "experts.@.down_proj.weight", Form::kEachExpert}}}),
       .config = Config("qwen3_moe", 2, 32, 4, 2, 320, "1e-6",
                        R"("head_dim": 32, "rope_theta": 1000000, "norm_topk_prob": true,
                                   "num_experts": 8, "num_experts_per_tok": 2,
                                   "moe_intermediate_size": 32, "mlp_only_layers": [],
                                   "decoder_sparse_step": 1)")});
}

TEST(HuggingFaceTwins, Gemma3sNormsAreOneMore) {
  const std::string layer = "model.layers.#.";
  const auto norm = [&layer](const std::string& name) {
    return TwinName{layer + name + ".weight", Form::kMinusOne};
  };
  TwinOptions options = {
      .names = With(CommonTwinNames(false),
                    {{"output_norm.weight", {"model.norm.weight", Form::kMinusOne}},
                     {"blk.#.attn_norm.weight", norm("input_layernorm")},
                     {"blk.#.attn_q_norm.weight", norm("self_attn.q_norm")},
                     {"blk.#.attn_k_norm.weight", norm("self_attn.k_norm")},
                     {"blk.#.post_attention_norm.weight", norm("post_attention_layernorm")},
                     {"blk.#.ffn_norm.weight", norm("pre_feedforward_layernorm")},
                     {"blk.#.post_ffw_norm.weight", norm("post_feedforward_layernorm")}}),
      .config = Config("gemma3_text", 6, 32, 4, 1, 320, "1e-6",
                       R"("head_dim": 32, "query_pre_attn_scalar": 32, "rope_theta": 1000000.0,
                          "rope_local_base_freq": 10000.0, "sliding_window": 16,
                          "hidden_activation": "gelu_pytorch_tanh",
                          "final_logit_softcapping": null, "attn_logit_softcapping": null)")};
  ExpectTwins("arch/gemma3-f16.gguf", options);
}

TEST(HuggingFaceTwins, MinistralsRopeHasItsOwnBetas) {
  ExpectTwins("arch/mistral3-f32.gguf",
              {.names = CommonTwinNames(true),
               .head_rows = 32,
               .config = Config("ministral3", 2, 64, 3, 1, 300, "1e-5",
                                R"("head_dim": 32, "tie_word_embeddings": true, "rope_parameters":
                                   {"rope_theta": 1e6, "rope_type": "yarn", "factor": 16.0,
                                    "original_max_position_embeddings": 64, "beta_fast": 4.0,
                                    "beta_slow": 0.25, "mscale": 1.0, "mscale_all_dim": 1.0,
                                    "llama_4_scaling_beta": 0.1})")});
}

TEST(HuggingFaceTwins, ALlamaFolderWithYarn) {
  ExpectTwins("arch/llama-yarn-f32.gguf",
              {.names = CommonTwinNames(true),
               .head_rows = 16,
               .config = Config("llama", 2, 64, 4, 2, 300, "1e-5",
                                R"("rope_theta": 500, "rope_scaling": {"type": "yarn",
                                   "factor": 4, "original_max_position_embeddings": 1024})")});
}

TEST(HuggingFaceTwins, SmolLm3) {
  ExpectTwins("arch/smollm3-f16.gguf",
              {.names = CommonTwinNames(true),
               .head_rows = 16,
               .config = Config("smollm3", 5, 32, 4, 1, 296, "1e-6",
                                R"("rope_theta": 5e6, "no_rope_layers": [1, 1, 1, 0, 1],
                                   "use_sliding_window": false, "sliding_window": null)")});
}

constexpr char kGraniteScalars[] =
    R"("embedding_multiplier": 12, "residual_multiplier": 0.22, "attention_multiplier": 0.125,
       "logits_scaling": 8, "rope_theta": 10000.0)";

TEST(HuggingFaceTwins, Granite) {
  ExpectTwins("arch/granite-f32.gguf",
              {.names = CommonTwinNames(true),
               .head_rows = 16,
               .config = Config("granite", 2, 64, 4, 2, 304, "1e-5", kGraniteScalars)});
}

TEST(HuggingFaceTwins, GraniteMoesGateAndUpAreHalvesOfEachExpert) {
  const std::string layer = "model.layers.#.";
  ExpectTwins(
      "arch/granitemoe-f16.gguf",
      {.names = With(
           CommonTwinNames(true),
           {{"blk.#.ffn_gate_inp.weight", {layer + "block_sparse_moe.router.layer.weight"}},
            {"blk.#.ffn_gate_exps.weight",
             {layer + "block_sparse_moe.input_linear.weight", Form::kSame,
              "blk.#.ffn_up_exps.weight"}},
            {"blk.#.ffn_down_exps.weight", {layer + "block_sparse_moe.output_linear.weight"}},
            {"blk.#.ffn_gate_shexp.weight",
             {layer + "shared_mlp.input_linear.weight", Form::kSame, "blk.#.ffn_up_shexp.weight"}},
            {"blk.#.ffn_down_shexp.weight", {layer + "shared_mlp.output_linear.weight"}}}),
       .head_rows = 16,
       .config = Config("granitemoeshared", 2, 32, 4, 2, 304, "1e-5",
                        R"("embedding_multiplier": 12, "residual_multiplier": 0.6,
                           "attention_multiplier": 0.0625, "logits_scaling": 6,
                           "rope_theta": 10000.0, "num_local_experts": 6, "num_experts_per_tok": 3,
                           "shared_intermediate_size": 64)")});
}

TEST(HuggingFaceTwins, Phi3sFactorsAreInItsConfig) {
  const std::string layer = "model.layers.#.";
  const GgufFile twin = OpenOrDie(kArch + "phi3-f16.gguf");
  const auto factors = [&twin](const std::string& name) {
    return absl::StrJoin(
        ValuesOf(twin, *twin.FindTensor(name)), ",",
        [](std::string* out, float value) { absl::StrAppendFormat(out, "%.9g", value); });
  };
  ExpectTwins("arch/phi3-f16.gguf",
              {.names = With(CommonTwinNames(false),
                             {{"rope_factors_long.weight", {"", Form::kDropped}},
                              {"rope_factors_short.weight", {"", Form::kDropped}},
                              {"blk.#.attn_qkv.weight", {layer + "self_attn.qkv_proj.weight"}},
                              {"blk.#.ffn_up.weight", {layer + "mlp.gate_up_proj.weight"}}}),
               .config = Config("phi3", 2, 64, 4, 4, 320, "1e-5",
                                absl::StrCat(
                                    R"("partial_rotary_factor": 0.75, "rope_theta": 10000.0,
                                       "original_max_position_embeddings": 512, "rope_scaling":
                                       {"type": "longrope", "attention_factor": 1.19,
                                        "long_factor": [)",
                                    factors("rope_factors_long.weight"), R"(], "short_factor": [)",
                                    factors("rope_factors_short.weight"), "]}"))});
}

Names OlmoNames() {
  const std::string layer = "model.layers.#.";
  return With(CommonTwinNames(false),
              {{"blk.#.post_attention_norm.weight", {layer + "post_attention_layernorm.weight"}},
               {"blk.#.post_ffw_norm.weight", {layer + "post_feedforward_layernorm.weight"}}});
}

TEST(HuggingFaceTwins, Olmo2) {
  ExpectTwins("arch/olmo2-f32.gguf",
              {.names = OlmoNames(),
               .config = Config("olmo2", 2, 64, 4, 2, 300, "1e-6", R"("rope_theta": 500000)")});
}

TEST(HuggingFaceTwins, Olmo3sLayersSayWhichHaveAWindow) {
  ExpectTwins("arch/olmo3-f16.gguf",
              {.names = OlmoNames(),
               .config = Config("olmo3", 4, 32, 4, 2, 300, "1e-6",
                                R"("rope_theta": 500000, "sliding_window": 16, "layer_types":
                                   ["sliding_attention", "sliding_attention", "sliding_attention",
                                    "full_attention"], "rope_scaling": {"rope_type": "yarn",
                                   "factor": 8.0, "original_max_position_embeddings": 512,
                                   "attention_factor": 1.2079441541679836})")});
}

TEST(HuggingFaceTwins, GptOsssExpertsAreBlocksOfMxfp4) {
  TwinOptions options = GptOssTwin();
  ExpectTwins("arch/gpt-oss-mxfp4.gguf", options);
  options.shards = 3;  // blocks and scales in different files
  ExpectTwins("arch/gpt-oss-mxfp4.gguf", options);
}

TEST(HuggingFaceTwins, Qwen2sBiasesStayInTheirOrder) {
  ExpectTwins("tiny/tiny-qwen2-bias.gguf",
              {.names = CommonTwinNames(false),
               .config = R"({"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2,
                             "max_position_embeddings": 512, "intermediate_size": 128,
                             "num_attention_heads": 4, "num_key_value_heads": 2,
                             "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "vocab_size": 320,
                             "tie_word_embeddings": true, "use_sliding_window": false,
                             "sliding_window": 131072})"});
}

}  // namespace
}  // namespace baton
