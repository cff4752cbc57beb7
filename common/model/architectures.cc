#include "common/model/architectures.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {
namespace {

constexpr const char* kExpertKeys[] = {"expert_count", "expert_used_count"};
constexpr const char* kSizedExpertKeys[] = {"expert_count", "expert_used_count",
                                            "expert_feed_forward_length"};
constexpr const char* kGemma3Keys[] = {"attention.sliding_window",
                                       "attention.sliding_window_pattern", "attention.scale",
                                       "rope.freq_base_swa", "final_logit_softcapping"};
constexpr const char* kMistral3Keys[] = {"attention.temperature_scale"};
constexpr const char* kGraniteKeys[] = {"attention.scale", "embedding_scale", "residual_scale",
                                        "logit_scale"};
constexpr const char* kGraniteMoeKeys[] = {"attention.scale",
                                           "embedding_scale",
                                           "residual_scale",
                                           "logit_scale",
                                           "expert_count",
                                           "expert_used_count",
                                           "expert_shared_feed_forward_length"};
constexpr const char* kPhi3Keys[] = {"attention.sliding_window"};
constexpr const char* kOlmo2Keys[] = {"attention.sliding_window",
                                      "attention.sliding_window_pattern"};
constexpr const char* kGptOssKeys[] = {"attention.sliding_window",
                                       "attention.sliding_window_pattern", "expert_count",
                                       "expert_used_count", "expert_feed_forward_length"};

constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .rope_pairs = RopePairs::kInterleaved,
     .experts = ExpertsRule::kOptional,
     .keys = kExpertKeys},
    {.name = "qwen2", .rope_pairs = RopePairs::kHalfSplit},
    {.name = "qwen3", .rope_pairs = RopePairs::kHalfSplit, .qk_norm = QkNorm::kHead},
    {.name = "qwen3moe",
     .rope_pairs = RopePairs::kHalfSplit,
     .qk_norm = QkNorm::kHead,
     .experts = ExpertsRule::kRequired,
     .keys = kSizedExpertKeys},
    {.name = "gemma3",
     .rope_pairs = RopePairs::kHalfSplit,
     .norm_places = NormPlaces::kAround,
     .qk_norm = QkNorm::kHead,
     .gate_function = GateFunction::kGeluTanh,
     .window_period = 6,
     .plain_local_rope = true,
     .local_rope_base = 10000,
     .root_embedding = true,
     .width_scaled_layers = 62,  // the model of 27 billion weights
     .keys = kGemma3Keys},
    {.name = "mistral3", .rope_pairs = RopePairs::kInterleaved, .keys = kMistral3Keys},
    {.name = "smollm3", .rope_pairs = RopePairs::kInterleaved, .unrotated_period = 4},
    {.name = "granite", .rope_pairs = RopePairs::kInterleaved, .keys = kGraniteKeys},
    {.name = "granitemoe",
     .rope_pairs = RopePairs::kInterleaved,
     .experts = ExpertsRule::kRequired,
     .keys = kGraniteMoeKeys},
    {.name = "phi3",
     .rope_pairs = RopePairs::kHalfSplit,
     .window_period = kNoGlobalLayer,
     .keys = kPhi3Keys},
    // The third generation differs by its windows only and has the same name.
    {.name = "olmo2",
     .rope_pairs = RopePairs::kHalfSplit,
     .norm_places = NormPlaces::kAfter,
     .qk_norm = QkNorm::kRow,
     .window_period = 4,
     .plain_local_rope = true,
     .keys = kOlmo2Keys},
    {.name = "gpt-oss",
     .rope_pairs = RopePairs::kHalfSplit,
     .gate_function = GateFunction::kClampedSilu,
     .experts = ExpertsRule::kRequired,
     .window_period = 2,
     .rounded_yarn = false,
     .sinks = true,
     .output_bias = true,
     .keys = kGptOssKeys},
};

// The second part is what no architecture here has.
constexpr const char* kOptionalKeys[] = {
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.temperature_scale",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "final_logit_softcapping",
    "rope.freq_base_swa",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",

    "attention.clamp_kqv",
    "attention.key_length_swa",
    "attention.max_alibi_bias",
    "attention.shared_kv_layers",
    "attention.temperature_length",
    "attn_logit_softcapping",
    "expert_chunk_feed_forward_length",
    "expert_gating_func",
    "expert_group_count",
    "expert_shared_count",
    "expert_weights_scale",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "nextn_predict_layers",
    "rope.dimension_count_swa",
    "rope.dimension_sections",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_ext_factor",
    "router_logit_softcapping",
    "use_parallel_residual",
};

}  // namespace

const Architecture* FindArchitecture(absl::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return &architecture;
  }
  return nullptr;
}

std::string SupportedArchitectures() {
  std::vector<const char*> names;
  for (const Architecture& architecture : kArchitectures) names.push_back(architecture.name);
  const char* last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

absl::Span<const char* const> OptionalKeys() { return kOptionalKeys; }

bool MayHave(const Architecture& architecture, absl::string_view key) {
  for (const char* own : architecture.keys) {
    if (key == own) return true;
  }
  return false;
}

}  // namespace baton
