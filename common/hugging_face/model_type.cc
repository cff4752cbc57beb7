#include "common/hugging_face/model_type.h"

#include <cmath>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/status_macros.h"

namespace baton {
namespace {

using Rule = TensorRule;

constexpr TensorName kCommon[] = {
    {"model.embed_tokens.weight", "token_embd.weight", Rule::kAsItIs},
    {"model.norm.weight", "output_norm.weight", Rule::kNorm},
    {"lm_head.weight", "output.weight", Rule::kAsItIs},
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", Rule::kNorm},
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", Rule::kQueryRows},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", Rule::kKeyRows},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", Rule::kAsItIs},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", Rule::kQueryRows},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", Rule::kKeyRows},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", Rule::kAsItIs},
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", Rule::kNorm},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", Rule::kNorm},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", Rule::kAsItIs},
    {"model.layers.#.self_attn.rotary_emb.inv_freq", "", Rule::kDropped},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", Rule::kNorm},
    {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", Rule::kAsItIs},
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", Rule::kAsItIs},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", Rule::kAsItIs}};

constexpr TensorName kMixtralNames[] = {
    {"model.layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight", Rule::kAsItIs},
    {"model.layers.#.block_sparse_moe.experts.#.w1.weight", "blk.#.ffn_gate_exps.weight",
     Rule::kExpert},
    {"model.layers.#.block_sparse_moe.experts.#.w3.weight", "blk.#.ffn_up_exps.weight",
     Rule::kExpert},
    {"model.layers.#.block_sparse_moe.experts.#.w2.weight", "blk.#.ffn_down_exps.weight",
     Rule::kExpert}};

constexpr TensorName kQwen3MoeNames[] = {
    {"model.layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", Rule::kAsItIs},
    {"model.layers.#.mlp.experts.#.gate_proj.weight", "blk.#.ffn_gate_exps.weight", Rule::kExpert},
    {"model.layers.#.mlp.experts.#.up_proj.weight", "blk.#.ffn_up_exps.weight", Rule::kExpert},
    {"model.layers.#.mlp.experts.#.down_proj.weight", "blk.#.ffn_down_exps.weight", Rule::kExpert}};

// Norms stand behind a sublayer too, or only there.
constexpr TensorName kPostNormNames[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight",
     Rule::kNorm},
    {"model.layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", Rule::kNorm},
    {"model.layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight",
     Rule::kNorm}};

constexpr TensorName kGraniteMoeNames[] = {
    {"model.layers.#.block_sparse_moe.router.layer.weight", "blk.#.ffn_gate_inp.weight",
     Rule::kAsItIs},
    {"model.layers.#.block_sparse_moe.input_linear.weight", "blk.#.ffn_gate_exps.weight",
     Rule::kGateAndUp, "blk.#.ffn_up_exps.weight"},
    {"model.layers.#.block_sparse_moe.output_linear.weight", "blk.#.ffn_down_exps.weight",
     Rule::kAsItIs},
    {"model.layers.#.shared_mlp.input_linear.weight", "blk.#.ffn_gate_shexp.weight",
     Rule::kGateAndUp, "blk.#.ffn_up_shexp.weight"},
    {"model.layers.#.shared_mlp.output_linear.weight", "blk.#.ffn_down_shexp.weight",
     Rule::kAsItIs}};

constexpr TensorName kPhi3Names[] = {
    {"model.layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight", Rule::kAsItIs},
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", Rule::kAsItIs}};

constexpr TensorName kGptOssNames[] = {
    {"model.layers.#.self_attn.sinks", "blk.#.attn_sinks.weight", Rule::kAsItIs},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", Rule::kAsItIs},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight",
     Rule::kNorm},
    {"model.layers.#.mlp.router.weight", "blk.#.ffn_gate_inp.weight", Rule::kAsItIs},
    {"model.layers.#.mlp.router.bias", "blk.#.ffn_gate_inp.bias", Rule::kAsItIs},
    {"model.layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_gate_exps.weight", Rule::kMxfp4,
     "blk.#.ffn_up_exps.weight"},
    {"model.layers.#.mlp.experts.gate_up_proj_scales", "", Rule::kDropped},
    {"model.layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_gate_exps.bias",
     Rule::kGateUpInTurns, "blk.#.ffn_up_exps.bias"},
    {"model.layers.#.mlp.experts.down_proj_blocks", "blk.#.ffn_down_exps.weight", Rule::kMxfp4},
    {"model.layers.#.mlp.experts.down_proj_scales", "", Rule::kDropped},
    {"model.layers.#.mlp.experts.down_proj_bias", "blk.#.ffn_down_exps.bias", Rule::kAsItIs}};

// Up to its length a window that the architecture's keys cannot express changes nothing, so the
// context ends there.
absl::Status EndContextAtWindow(const JsonFileFields& config, TranslatedKeys& keys) {
  if (!config.Has("sliding_window")) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const uint64_t window, config.Count("sliding_window", 1, kMaxPositions));
  keys.context_length = std::min(keys.context_length, window);
  return absl::OkStatus();
}

// Whether layer_types lists a layer with a window.
absl::StatusOr<bool> ListsWindows(const JsonFileFields& config) {
  if (!config.Has("layer_types")) return false;
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> types, config.Texts("layer_types"));
  bool windows = false;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return config.Unsupported("layer_types",
                                "has a type that is neither full_attention nor sliding_attention");
    }
    windows |= type == "sliding_attention";
  }
  return windows;
}

absl::Status ReadQwen2(const JsonFileFields& config, TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const bool windows, config.BoolOr("use_sliding_window", false));
  BATON_ASSIGN_OR_RETURN(const bool listed, ListsWindows(config));
  return windows || listed ? EndContextAtWindow(config, keys) : absl::OkStatus();
}

absl::Status ReadExperts(const JsonFileFields& config, const char* count_field,
                         TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const uint64_t experts, config.Count(count_field, 1, 65536));
  BATON_ASSIGN_OR_RETURN(const uint64_t used, config.Count("num_experts_per_tok", 1, experts));
  keys.Count("expert_count", experts);
  keys.Count("expert_used_count", used);
  return absl::OkStatus();
}

absl::Status ReadMixtral(const JsonFileFields& config, TranslatedKeys& keys) {
  BATON_RETURN_IF_ERROR(EndContextAtWindow(config, keys));
  return ReadExperts(config, "num_local_experts", keys);
}

absl::Status ReadQwen3Moe(const JsonFileFields& config, TranslatedKeys& keys) {
  BATON_RETURN_IF_ERROR(ReadQwen2(config, keys));
  BATON_ASSIGN_OR_RETURN(const bool normed, config.BoolOr("norm_topk_prob", false));
  if (!normed) return config.Unsupported("norm_topk_prob", "is not true, which alone is supported");
  BATON_ASSIGN_OR_RETURN(const uint64_t step,
                         config.CountOr("decoder_sparse_step", 0, kMaxLayers, 1));
  const nlohmann::json* dense = config.Find("mlp_only_layers");
  if (step != 1 || (dense != nullptr && !dense->empty())) {
    return config.Unsupported("mlp_only_layers",
                              "or decoder_sparse_step asks for layers without "
                              "experts; supported are experts in every layer");
  }
  BATON_ASSIGN_OR_RETURN(const uint64_t rows, config.Count("moe_intermediate_size", 1, kMaxWidth));
  keys.Count("expert_feed_forward_length", rows);
  return ReadExperts(config, "num_experts", keys);
}

absl::Status ReadGemma3(const JsonFileFields& config, TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const double scalar, config.NumberOr("query_pre_attn_scalar", 256));
  // The one model whose scale is that of width / heads is known by its layers.
  const auto expected =
      static_cast<double>(keys.layers == 62 ? keys.width / keys.heads : keys.head_dim);
  if (scalar != expected) {
    return config.Unsupported("query_pre_attn_scalar",
                              absl::StrCat("is ", scalar, "; supported is ", expected));
  }
  BATON_ASSIGN_OR_RETURN(const double cap, config.NumberOr("attn_logit_softcapping", 0));
  if (cap != 0) return config.Unsupported("attn_logit_softcapping", "is not supported");
  BATON_ASSIGN_OR_RETURN(const bool both_ways, config.BoolOr("use_bidirectional_attention", false));
  if (both_ways) {
    return config.Unsupported("use_bidirectional_attention",
                              "is true; supported are models that generate text");
  }
  BATON_ASSIGN_OR_RETURN(const double softcap, config.NumberOr("final_logit_softcapping", 0));
  if (softcap != 0) keys.Number("final_logit_softcapping", softcap);
  return ReadWindowFields(config, /*default_period=*/6, keys);
}

absl::Status ReadSmolLm3(const JsonFileFields& config, TranslatedKeys& keys) {
  BATON_RETURN_IF_ERROR(ReadQwen2(config, keys));
  if (!config.Has("no_rope_layers")) {
    BATON_ASSIGN_OR_RETURN(const uint64_t interval,
                           config.CountOr("no_rope_layer_interval", 0, kMaxLayers, 4));
    if (interval == 4) return absl::OkStatus();
    return config.Unsupported("no_rope_layer_interval",
                              absl::StrCat("is ", interval, "; supported is 4"));
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<double> rotated, config.Numbers("no_rope_layers"));
  for (size_t layer = 0; layer < rotated.size(); ++layer) {
    if (rotated[layer] == ((layer + 1) % 4 == 0 ? 0 : 1)) continue;
    return config.Unsupported("no_rope_layers",
                              "does not leave out every fourth layer, which "
                              "alone is supported");
  }
  return absl::OkStatus();
}

absl::Status ReadGranite(const JsonFileFields& config, TranslatedKeys& keys) {
  for (const auto& [theirs, ours] : {std::pair("embedding_multiplier", "embedding_scale"),
                                     std::pair("residual_multiplier", "residual_scale"),
                                     std::pair("attention_multiplier", "attention.scale"),
                                     std::pair("logits_scaling", "logit_scale")}) {
    BATON_ASSIGN_OR_RETURN(const double scale, config.Number(theirs));
    if (!(scale > 0)) return config.Invalid(theirs, "is not above 0");
    keys.Number(ours, scale);
  }
  return absl::OkStatus();
}

absl::Status ReadGraniteMoe(const JsonFileFields& config, TranslatedKeys& keys) {
  BATON_RETURN_IF_ERROR(ReadGranite(config, keys));
  BATON_ASSIGN_OR_RETURN(const uint64_t shared,
                         config.CountOr("shared_intermediate_size", 0, kMaxWidth, 0));
  if (shared > 0) keys.Count("expert_shared_feed_forward_length", shared);
  return ReadExperts(config, "num_local_experts", keys);
}

absl::Status ReadPhi3(const JsonFileFields& config, TranslatedKeys& keys) {
  return ReadWindowFields(config, /*default_period=*/0, keys);
}

absl::Status ReadOlmo3(const JsonFileFields& config, TranslatedKeys& keys) {
  return ReadWindowFields(config, /*default_period=*/4, keys);
}

absl::Status ReadGptOss(const JsonFileFields& config, TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const double limit, config.NumberOr("swiglu_limit", 7));
  if (limit != 7) {
    return config.Unsupported("swiglu_limit", absl::StrCat("is ", limit, "; supported is 7"));
  }
  BATON_ASSIGN_OR_RETURN(const double alpha, config.NumberOr("swiglu_alpha", 1.702));
  if (alpha != 1.702) {
    return config.Unsupported("swiglu_alpha", absl::StrCat("is ", alpha, "; supported is 1.702"));
  }
  BATON_ASSIGN_OR_RETURN(const bool biases, config.BoolOr("attention_bias", true));
  if (!biases) return config.Unsupported("attention_bias", "is false; supported is true");
  if (!config.Has("quantization_config")) {
    return config.Unsupported("quantization_config",
                              "is missing; supported are weights with quant_method mxfp4, as they "
                              "are published");
  }
  BATON_ASSIGN_OR_RETURN(const uint64_t rows, config.Count("intermediate_size", 1, kMaxWidth));
  keys.Count("expert_feed_forward_length", rows);
  BATON_RETURN_IF_ERROR(ReadExperts(config, "num_local_experts", keys));
  return ReadWindowFields(config, /*default_period=*/2, keys);
}

// The published models with images have little more than their widths and layers in text_config.
constexpr char kGemma3Defaults[] =
    R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 256,
        "sliding_window": 4096})";

constexpr char kMinistral3Defaults[] =
    R"({"rope_parameters": {"type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
        "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}})";
constexpr char kGptOssDefaults[] =
    R"({"sliding_window": 128, "rope_parameters": {"rope_type": "yarn", "factor": 32.0,
        "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
        "original_max_position_embeddings": 4096}})";
constexpr char kWindowDefault[] = R"({"sliding_window": 4096})";
constexpr char kPhi3Defaults[] = R"({"original_max_position_embeddings": 4096})";

constexpr ModelType kModelTypes[] = {
    {.model_type = "llama", .name = "llama", .rotates_pairs = true},
    {.model_type = "mistral",
     .name = "llama",
     .rotates_pairs = true,
     .read = EndContextAtWindow,
     .defaults = kWindowDefault},
    {.model_type = "ministral3",
     .name = "mistral3",
     .rotates_pairs = true,
     .read = EndContextAtWindow,
     .defaults = kMinistral3Defaults},
    {.model_type = "mixtral",
     .name = "llama",
     .rotates_pairs = true,
     .read = ReadMixtral,
     .names = kMixtralNames,
     .rope = {.base = 1'000'000}},
    {.model_type = "qwen2", .name = "qwen2", .read = ReadQwen2, .defaults = kWindowDefault},
    {.model_type = "qwen3", .name = "qwen3", .read = ReadQwen2, .defaults = kWindowDefault},
    {.model_type = "qwen3_moe",
     .name = "qwen3moe",
     .read = ReadQwen3Moe,
     .names = kQwen3MoeNames,
     .defaults = kWindowDefault},
    {.model_type = "gemma3_text",
     .name = "gemma3",
     .norms_plus_one = true,
     .activation = "gelu_pytorch_tanh",
     .read = ReadGemma3,
     .names = kPostNormNames,
     .rope = {.base = 1'000'000,
              .by_layer_type = true,
              .local_base = 10'000,
              .local_base_field = "rope_local_base_freq"},
     .tied = true,
     .defaults = kGemma3Defaults},
    {.model_type = "smollm3",
     .name = "smollm3",
     .rotates_pairs = true,
     .read = ReadSmolLm3,
     .rope = {.base = 2'000'000},
     .tied = true},
    {.model_type = "granite", .name = "granite", .rotates_pairs = true, .read = ReadGranite},
    {.model_type = "granitemoe",
     .name = "granitemoe",
     .rotates_pairs = true,
     .read = ReadGraniteMoe,
     .names = kGraniteMoeNames},
    {.model_type = "granitemoeshared",
     .name = "granitemoe",
     .rotates_pairs = true,
     .read = ReadGraniteMoe,
     .names = kGraniteMoeNames},
    {.model_type = "phi3",
     .name = "phi3",
     .read = ReadPhi3,
     .names = kPhi3Names,
     .rope = {.partial = true, .long_only = true},
     .defaults = kPhi3Defaults},
    {.model_type = "olmo2", .name = "olmo2", .names = kPostNormNames},
    {.model_type = "olmo3",
     .name = "olmo2",
     .read = ReadOlmo3,
     .names = kPostNormNames,
     .rope = {.base = 500'000, .by_layer_type = true, .local_base = 500'000},
     .defaults = kWindowDefault},
    {.model_type = "gpt_oss",
     .name = "gpt-oss",
     .read = ReadGptOss,
     .names = kGptOssNames,
     .mxfp4_method = "mxfp4",
     .rope = {.base = 150'000},
     .rounded_yarn = false,
     .defaults = kGptOssDefaults}};

}  // namespace

const ModelType* FindModelType(const std::string& model_type) {
  for (const ModelType& type : kModelTypes) {
    if (model_type == type.model_type) return &type;
  }
  return nullptr;
}

std::string ModelTypes() {
  return absl::StrJoin(kModelTypes, ", ", [](std::string* out, const ModelType& a) {
    absl::StrAppend(out, a.model_type);
  });
}

absl::Span<const TensorName> CommonNames() { return kCommon; }

}  // namespace baton
