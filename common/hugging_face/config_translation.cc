#include "common/hugging_face/config_translation.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

absl::Status ReadSizes(const JsonFileFields& config, TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(keys.layers, config.Count("num_hidden_layers", 1, kMaxLayers));
  BATON_ASSIGN_OR_RETURN(keys.width, config.Count("hidden_size", 1, kMaxWidth));
  BATON_ASSIGN_OR_RETURN(const uint64_t hidden, config.Count("intermediate_size", 1, kMaxWidth));
  BATON_ASSIGN_OR_RETURN(keys.heads, config.Count("num_attention_heads", 1, kMaxHeads));
  BATON_ASSIGN_OR_RETURN(keys.kv_heads,
                         config.CountOr("num_key_value_heads", 1, kMaxHeads, keys.heads));
  BATON_ASSIGN_OR_RETURN(keys.context_length,
                         config.Count("max_position_embeddings", 1, kMaxPositions));
  BATON_ASSIGN_OR_RETURN(const uint64_t vocabulary, config.Count("vocab_size", 1, 1 << 24));
  BATON_ASSIGN_OR_RETURN(const double epsilon, config.Number("rms_norm_eps"));
  if (!config.Has("head_dim") && keys.width % keys.heads != 0) {
    return config.Invalid("num_attention_heads", "does not divide hidden_size");
  }
  BATON_ASSIGN_OR_RETURN(keys.head_dim,
                         config.CountOr("head_dim", 1, kMaxHeadRows, keys.width / keys.heads));
  keys.Count("block_count", keys.layers);
  keys.Count("embedding_length", keys.width);
  keys.Count("feed_forward_length", hidden);
  keys.Count("vocab_size", vocabulary);
  keys.Count("attention.head_count", keys.heads);
  keys.Count("attention.head_count_kv", keys.kv_heads);
  keys.Count("attention.key_length", keys.head_dim);
  keys.Count("attention.value_length", keys.head_dim);
  keys.Number("attention.layer_norm_rms_epsilon", epsilon);
  return absl::OkStatus();
}

// The function of the feed-forward's gate, of which the architecture computes one.
absl::Status CheckActivation(const JsonFileFields& config, const ModelType& type) {
  const char* field = config.Has("hidden_activation") ? "hidden_activation" : "hidden_act";
  BATON_ASSIGN_OR_RETURN(const std::string activation, config.TextOr(field, type.activation));
  if (activation != type.activation) {
    return config.Unsupported(
        field, absl::StrCat("is '", LogSafe(activation), "'; supported is ", type.activation));
  }
  return absl::OkStatus();
}

// Whether the weights are E4M3 with scales of blocks.
absl::StatusOr<bool> ReadQuantisation(const JsonFileFields& config, const ModelType& type) {
  if (!config.Has("quantization_config")) return false;
  BATON_ASSIGN_OR_RETURN(const JsonFileFields quantisation, config.Object("quantization_config"));
  BATON_ASSIGN_OR_RETURN(const std::string method, quantisation.TextOr("quant_method", ""));
  if (type.mxfp4_method != nullptr && method == type.mxfp4_method) return false;
  if (method == "fp8" && quantisation.Has("weight_block_size")) {
    BATON_ASSIGN_OR_RETURN(const std::vector<double> block,
                           quantisation.Numbers("weight_block_size"));
    if (block == std::vector<double>{128, 128}) return true;
  }
  return quantisation.Unsupported(
      "quant_method", absl::StrCat("is '", LogSafe(method),
                                   "'; supported is fp8 with a weight_block_size of [128, 128]; "
                                   "take the model's BF16 weights, and --quantize, or a GGUF "
                                   "file"));
}

// GGUF's number of the type that most weights have; the config may not say.
absl::Status ReadType(const JsonFileFields& config, const ModelType& model,
                      GgufMetadata& metadata) {
  if (model.mxfp4_method != nullptr && config.Has("quantization_config")) {
    metadata.Uint32("general.file_type", 38);
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(const std::string older, config.TextOr("torch_dtype", ""));
  BATON_ASSIGN_OR_RETURN(const std::string type, config.TextOr("dtype", older));
  for (const auto& [name, number] :
       {std::pair("float32", 0u), std::pair("float16", 1u), std::pair("bfloat16", 32u)}) {
    if (type == name) metadata.Uint32("general.file_type", number);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TranslatedConfig> TranslateConfig(const JsonFileFields& file) {
  TranslatedConfig translated = {.type = nullptr, .keys = {}};
  translated.multimodal = file.Has("text_config");
  JsonFileFields config = file;
  if (translated.multimodal) {
    BATON_ASSIGN_OR_RETURN(config, file.Object("text_config"));
  }
  BATON_ASSIGN_OR_RETURN(const std::string model_type, config.Text("model_type"));
  translated.type = FindModelType(model_type);
  if (translated.type == nullptr) {
    return config.Unsupported(
        "model_type", absl::StrCat("is '", LogSafe(model_type), "'; supported are ", ModelTypes()));
  }
  nlohmann::json with_defaults;
  if (translated.type->defaults != nullptr) {
    config = config.WithDefaults(nlohmann::json::parse(translated.type->defaults), with_defaults);
  }
  TranslatedKeys& keys = translated.keys;
  keys.prefix = translated.type->name;
  keys.rounded_yarn = translated.type->rounded_yarn;
  keys.metadata.Text("general.architecture", keys.prefix);
  BATON_RETURN_IF_ERROR(ReadType(file, *translated.type, keys.metadata));
  BATON_RETURN_IF_ERROR(ReadSizes(config, keys));
  BATON_RETURN_IF_ERROR(CheckActivation(config, *translated.type));
  BATON_RETURN_IF_ERROR(ReadRopeFields(config, translated.type->rope, keys));
  if (translated.type->read != nullptr) {
    BATON_RETURN_IF_ERROR(translated.type->read(config, keys));
  }
  keys.Count("context_length", keys.context_length);
  BATON_ASSIGN_OR_RETURN(translated.scaled_e4m3, ReadQuantisation(file, *translated.type));
  const JsonFileFields& tie = config.Has("tie_word_embeddings") ? config : file;
  BATON_ASSIGN_OR_RETURN(translated.tied, tie.BoolOr("tie_word_embeddings", translated.type->tied));
  return translated;
}

}  // namespace baton
