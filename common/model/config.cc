#include "common/model/config.h"

#include <bit>
#include <cmath>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/model/model_keys.h"

namespace baton {
namespace {

absl::Status ReadSizes(const ModelKeys& keys, ModelConfig& config) {
  BATON_ASSIGN_OR_RETURN(config.layers, keys.Count("block_count", 4096));
  BATON_ASSIGN_OR_RETURN(config.width, keys.Count("embedding_length", 1 << 18));
  BATON_ASSIGN_OR_RETURN(config.feed_forward_width, keys.Count("feed_forward_length", 1 << 20));
  BATON_ASSIGN_OR_RETURN(config.context_length, keys.Count("context_length", 1 << 27));
  const GgufFile& file = keys.file();
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->dims.size() != 2 || embedding->dims[1] < 1 ||
      embedding->dims[1] > (1 << 24)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": tensor 'token_embd.weight' is missing or has no vocabulary"));
  }
  config.vocab_size = static_cast<int>(embedding->dims[1]);
  if (keys.Has("vocab_size")) {
    BATON_ASSIGN_OR_RETURN(const int vocab_size, keys.Count("vocab_size", 1 << 24));
    if (vocab_size != config.vocab_size) {
      return keys.Invalid("vocab_size",
                          absl::StrCat("is ", vocab_size, ", but 'token_embd.weight' has ",
                                       config.vocab_size, " rows"));
    }
  }
  BATON_ASSIGN_OR_RETURN(const double epsilon, keys.Number("attention.layer_norm_rms_epsilon"));
  config.norm_epsilon = static_cast<float>(epsilon);
  return absl::OkStatus();
}

absl::Status ReadHeads(const ModelKeys& keys, ModelConfig& config) {
  BATON_ASSIGN_OR_RETURN(config.heads, keys.Count("attention.head_count", 4096));
  BATON_ASSIGN_OR_RETURN(config.kv_heads,
                         keys.CountOr("attention.head_count_kv", 4096, config.heads));
  if (config.heads % config.kv_heads != 0) {
    return keys.Invalid("attention.head_count_kv", "does not divide attention.head_count");
  }
  if (!keys.Has("attention.key_length") && config.width % config.heads != 0) {
    return keys.Invalid("attention.head_count", "does not divide embedding_length");
  }
  BATON_ASSIGN_OR_RETURN(
      config.head_dim, keys.CountOr("attention.key_length", 1 << 16, config.width / config.heads));
  BATON_ASSIGN_OR_RETURN(const int value_dim,
                         keys.CountOr("attention.value_length", 1 << 16, config.head_dim));
  if (value_dim != config.head_dim) {
    return keys.Unsupported("attention.value_length", "differs from the keys'; supported is equal");
  }
  if (config.head_dim % 16 != 0 || config.head_dim > 512) {
    return keys.Unsupported("attention.key_length",
                            absl::StrCat("(head dimension) is ", config.head_dim,
                                         "; supported are multiples of 16 up to 512"));
  }
  return absl::OkStatus();
}

absl::Status CheckKeys(const ModelKeys& keys, const Architecture& architecture) {
  for (const char* name : OptionalKeys()) {
    if (!keys.Has(name) || MayHave(architecture, name) || keys.IsNone(name)) continue;
    return keys.Unsupported(name, absl::StrCat("is set, which no supported model of architecture '",
                                               architecture.name, "' needs"));
  }
  return absl::OkStatus();
}

absl::Status ReadExperts(const ModelKeys& keys, const Architecture& architecture,
                         ModelConfig& config) {
  constexpr int kMostExperts = 512;  // as many as CUDA's kernels take
  ExpertsConfig& experts = config.experts;
  if (architecture.experts == ExpertsRule::kNone) return absl::OkStatus();
  if (architecture.experts == ExpertsRule::kRequired) {
    BATON_ASSIGN_OR_RETURN(experts.count, keys.Count("expert_count", kMostExperts));
  } else {
    BATON_ASSIGN_OR_RETURN(experts.count, keys.CountOrNone("expert_count", kMostExperts));
    if (experts.count == 0) return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(experts.used, keys.Count("expert_used_count", experts.count));
  BATON_ASSIGN_OR_RETURN(experts.width, keys.CountOr("expert_feed_forward_length", 1 << 20,
                                                     config.feed_forward_width));
  BATON_ASSIGN_OR_RETURN(experts.shared_width,
                         keys.CountOrNone("expert_shared_feed_forward_length", 1 << 20));
  return absl::OkStatus();
}

absl::Status ReadScales(const ModelKeys& keys, const Architecture& architecture,
                        ModelConfig& config) {
  const auto read = [&](const char* name, float otherwise, float& scale) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const double value, keys.NumberUnlessNone(name, otherwise));
    scale = static_cast<float>(value);
    return absl::OkStatus();
  };
  const auto width = static_cast<float>(config.width);
  BATON_RETURN_IF_ERROR(read("embedding_scale", architecture.root_embedding ? std::sqrt(width) : 1,
                             config.embedding_scale));
  BATON_RETURN_IF_ERROR(read("residual_scale", 1, config.residual_scale));
  const float scaled = config.layers == architecture.width_scaled_layers
                           ? width / static_cast<float>(config.heads)
                           : static_cast<float>(config.head_dim);
  BATON_RETURN_IF_ERROR(read("attention.scale", 1 / std::sqrt(scaled), config.attention_scale));
  BATON_RETURN_IF_ERROR(read("logit_scale", 1, config.logit_scale));
  BATON_RETURN_IF_ERROR(read("final_logit_softcapping", 0, config.logit_soft_cap));
  BATON_ASSIGN_OR_RETURN(config.temperature_scale,
                         keys.NumberUnlessNone("attention.temperature_scale", 0));
  if (config.temperature_scale != 0) {
    BATON_ASSIGN_OR_RETURN(config.temperature_length, ReadOriginalContext(keys));
  }
  return absl::OkStatus();
}

// Whether each layer has a window, by the file's pattern or else the architecture's. Empty: none
// has.
absl::StatusOr<std::vector<bool>> ReadLocalLayers(const ModelKeys& keys,
                                                  const Architecture& architecture, int layers) {
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const std::string key = keys.Key(kPattern);
  int period = architecture.window_period;
  if (keys.Has(kPattern)) {
    const auto count = keys.file().GetUint(key);
    if (!count.ok()) {
      BATON_ASSIGN_OR_RETURN(std::vector<bool> pattern, keys.file().GetBools(key));
      if (static_cast<int>(pattern.size()) == layers) return pattern;
      return keys.Invalid(
          kPattern, absl::StrCat("has ", pattern.size(), " values; there are ", layers, " layers"));
    }
    BATON_ASSIGN_OR_RETURN(period, keys.Count(kPattern, kNoGlobalLayer));
  }
  std::vector<bool> local;
  for (int layer = 0; layer < layers; ++layer) local.push_back(layer % period < period - 1);
  return local;
}

absl::Status ReadLayers(const ModelKeys& keys, const Architecture& architecture, int max_positions,
                        ModelConfig& config) {
  int window = 0;
  if (architecture.window_period > 0) {
    BATON_ASSIGN_OR_RETURN(window, keys.CountOrNone("attention.sliding_window", 1 << 27));
  }
  std::vector<bool> local(static_cast<size_t>(config.layers));
  if (window > 0) {
    BATON_ASSIGN_OR_RETURN(local, ReadLocalLayers(keys, architecture, config.layers));
  }
  BATON_ASSIGN_OR_RETURN(config.ropes,
                         ReadRopes(keys, architecture, config.head_dim, window > 0, max_positions));
  const int local_rope = static_cast<int>(config.ropes.size()) - 1;
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool has_window = local[static_cast<size_t>(layer)];
    LayerConfig kind = {.window = has_window ? window : 0, .rope = has_window ? local_rope : 0};
    const int period = architecture.unrotated_period;
    if (period > 0 && (layer + 1) % period == 0) kind.rope = kNoRope;
    config.layer_kinds.push_back(kind);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfig::FromGguf(const GgufFile& file, int max_model_len) {
  ModelConfig config;
  BATON_ASSIGN_OR_RETURN(const absl::string_view name, file.GetString("general.architecture"));
  const Architecture* architecture = FindArchitecture(name);
  if (architecture == nullptr) {
    return absl::UnimplementedError(absl::StrCat(file.path(), ": general.architecture is '",
                                                 LogSafe(name), "'; supported are ",
                                                 SupportedArchitectures()));
  }
  config.architecture = architecture->name;
  if (file.Has("general.name")) {
    BATON_ASSIGN_OR_RETURN(const absl::string_view title, file.GetString("general.name"));
    config.name = std::string(title);
  }
  const ModelKeys keys(file, name);
  BATON_RETURN_IF_ERROR(CheckKeys(keys, *architecture));
  BATON_RETURN_IF_ERROR(ReadSizes(keys, config));
  BATON_RETURN_IF_ERROR(ReadHeads(keys, config));
  config.norm_places = architecture->norm_places;
  config.qk_norm = architecture->qk_norm;
  config.gate_function = architecture->gate_function;
  config.sinks = architecture->sinks;
  config.output_bias = architecture->output_bias;
  BATON_RETURN_IF_ERROR(ReadExperts(keys, *architecture, config));
  BATON_RETURN_IF_ERROR(ReadScales(keys, *architecture, config));
  BATON_RETURN_IF_ERROR(ReadLayers(
      keys, *architecture, max_model_len > 0 ? max_model_len : config.context_length, config));
  return config;
}

std::string ModelConfig::Digest() const {
  Sha256 sha;
  const auto add_ints = [&](std::initializer_list<int> values) {
    for (const int value : values) sha.UpdateInteger(int64_t{value});
  };
  const auto add_numbers = [&](std::initializer_list<double> values) {
    for (const double value : values) sha.UpdateInteger(std::bit_cast<uint64_t>(value));
  };
  sha.Update("baton model config 2\n");
  add_ints({layers, width, feed_forward_width, heads, kv_heads, head_dim, vocab_size,
            context_length, static_cast<int>(norm_places), static_cast<int>(qk_norm),
            static_cast<int>(gate_function), experts.count, experts.used, experts.width,
            experts.shared_width, sinks, output_bias, temperature_length});
  add_numbers({norm_epsilon, embedding_scale, residual_scale, attention_scale, logit_scale,
               logit_soft_cap, temperature_scale});
  add_ints({static_cast<int>(ropes.size())});
  for (const RopeConfig& rope : ropes) {
    add_ints({static_cast<int>(rope.pairs), rope.dim, static_cast<int>(rope.divisors)});
    add_numbers({rope.base, rope.linear_scale, rope.yarn_factor, rope.ramp_low, rope.ramp_high,
                 rope.magnitude});
  }
  for (const LayerConfig& kind : layer_kinds) add_ints({kind.window, kind.rope});
  return sha.Finish();
}

KvLayout ModelConfig::MakeKvLayout(int block_size, KvType dtype) const {
  std::vector<int> windows;  // [layers]
  for (const LayerConfig& kind : layer_kinds) windows.push_back(kind.window);
  return {.layers = layers,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .block_size = block_size,
          .dtype = dtype,
          .groups = windows.empty() ? KvLayerGroups() : KvLayerGroups(windows)};
}

}  // namespace baton
