// Every field that transformers' configuration classes have for a served model type is read,
// refused by name, or changes no answer.
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/hugging_face/config_translation.h"

namespace baton {
namespace {

using FieldsJson = nlohmann::json;

const FieldsJson& FieldTable() {
  static const FieldsJson* const table = new FieldsJson(FieldsJson::parse(
      std::ifstream(std::string(BATON_TEST_DATA) + "/transformers/config_fields.json")));
  return *table;
}

// Fields that change no answer, and why.
const std::map<std::string, std::string>& Harmless() {
  static const auto* const harmless = new std::map<std::string, std::string>{
      {"initializer_range", "training"},
      {"attention_dropout", "training"},
      {"resid_pdrop", "training"},
      {"embd_pdrop", "training"},
      {"output_router_logits", "training"},
      {"router_aux_loss_coef", "training"},
      {"router_jitter_noise", "training"},
      {"pretraining_tp", "how a product is cut into parts, not what it is"},
      {"use_cache", "speed"},
      {"pad_token_id", "a token that no request has"},
      {"bos_token_id", "tokenizer_keys.h reads it"},
      {"eos_token_id", "tokenizer_keys.h reads it"},
      {"max_window_layers", "the context ends at the window, whichever layers have one"},
      {"attention_bias", "the tensors say which biases there are, and others are refused"},
      {"mlp_bias", "a bias there is a tensor that is refused"}};
  return *harmless;
}

// Fields of one model type that change no answer there.
bool HarmlessHere(const std::string& type, const std::string& field) {
  if (type == "gpt_oss" && field == "attention_bias") return false;
  // transformers reads it where layer types have no parameters of their own.
  const bool by_layer_type = type == "gemma3_text" || type == "olmo3";
  if (by_layer_type && field == "original_max_position_embeddings") return true;
  return Harmless().count(field) > 0;
}

// A config that is served, with what makes fields count that depend on others.
FieldsJson SmallConfig(const std::string& type) {
  FieldsJson config = FieldsJson::parse(
      R"({"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
          "vocab_size": 100, "rms_norm_eps": 0.5, "head_dim": 8,
          "rope_parameters": {"rope_type": "yarn", "factor": 2,
                              "original_max_position_embeddings": 128}})");
  config["model_type"] = type;
  const FieldsJson rope = config["rope_parameters"];
  const auto add = [&config](const char* fields) { config.update(FieldsJson::parse(fields)); };
  if (absl::StartsWith(type, "qwen") || type == "smollm3") {
    add(R"({"use_sliding_window": true, "sliding_window": 200})");
  }
  if (type == "qwen3_moe") {
    add(R"({"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
            "norm_topk_prob": true})");
  }
  if (type == "mixtral" || type == "gpt_oss" || absl::StartsWith(type, "granitemoe")) {
    add(R"({"num_local_experts": 2, "num_experts_per_tok": 1})");
  }
  if (absl::StartsWith(type, "granite")) {
    add(R"({"embedding_multiplier": 1, "residual_multiplier": 1, "attention_multiplier": 1,
            "logits_scaling": 1})");
  }
  if (type == "gemma3_text") add(R"({"query_pre_attn_scalar": 8})");
  if (type == "gemma3_text" || type == "olmo3") {
    config["rope_parameters"] = {{"full_attention", rope}};
  }
  if (type == "phi3") {
    add(R"({"rope_parameters": {"rope_type": "longrope", "long_factor": [1, 2, 3, 4],
                                "short_factor": [1, 1, 1, 2]}})");
  }
  if (type == "gpt_oss") {
    add(R"({"quantization_config": {"quant_method": "mxfp4"}})");
    config["rope_parameters"]["truncate"] = false;
  }
  return config;
}

// A value unlike the config's, and unlike the default.
FieldsJson OtherValue(const std::string& type, const std::string& field, const FieldsJson& now) {
  static const auto* const others = new std::map<std::string, FieldsJson>{
      {"sliding_window", 100},
      {"max_position_embeddings", 100},
      {"sliding_window_pattern", 2},
      {"layer_types", FieldsJson::array({"chunked_attention", "full_attention"})},
      {"no_rope_layers", FieldsJson::array({0, 1})},
      {"mlp_only_layers", FieldsJson::array({1})},
      {"shared_intermediate_size", 8},
      {"original_max_position_embeddings", 32},
      {"final_logit_softcapping", 30},
      {"attn_logit_softcapping", 30},
      {"rope_theta", 77},
      {"rope_local_base_freq", 77},
      {"partial_rotary_factor", 0.5},
      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 3}}},
      {"rope_parameters", {{"rope_theta", 77}}}};
  if (field == "rope_parameters" && (type == "gemma3_text" || type == "olmo3")) {
    return {{"full_attention", {{"rope_theta", 77}}}, {"sliding_attention", {{"rope_theta", 77}}}};
  }
  if (const auto found = others->find(field); found != others->end()) return found->second;
  if (now.is_boolean()) return !now.get<bool>();
  if (now.is_string()) return now.get<std::string>() == "relu" ? "silu" : "relu";
  if (now.is_number_float()) return now.get<double>() == 0 ? 0.5 : 2 * now.get<double>();
  if (now.is_number_integer()) return 2 * now.get<int64_t>();
  return 3;
}

// All that a config says, as the rest of Baton sees it; an error's text begins with "config.json".
std::string Meaning(const FieldsJson& config) {
  const auto translated = TranslateConfig(JsonFileFields(config, "config.json"));
  if (!translated.ok()) return std::string(translated.status().message());
  const TranslatedKeys& keys = translated->keys;
  std::string meaning = absl::StrCat(keys.metadata.bytes(), "|", translated->tied, "|");
  for (const auto* factors :
       {&keys.rope_freqs, &keys.rope_factors_long, &keys.rope_factors_short}) {
    for (const float factor : *factors) absl::StrAppend(&meaning, factor, ",");
    meaning += "|";
  }
  return meaning;
}

bool IsError(const std::string& meaning) { return absl::StartsWith(meaning, "config.json: "); }

// Whether a field is heard of: another value is another meaning, or an error.
void ExpectFieldCounts(const std::string& type, const std::string& field,
                       const FieldsJson& by_default) {
  const FieldsJson small = SmallConfig(type);
  const std::string before = Meaning(small);
  ASSERT_FALSE(IsError(before)) << type << ": " << before;
  FieldsJson changed = small;
  changed[field] = OtherValue(type, field, small.contains(field) ? small[field] : by_default);
  const std::string after = Meaning(changed);
  if (HarmlessHere(type, field)) {
    EXPECT_EQ(after, before) << type << "." << field << " counts: it is not harmless";
    return;
  }
  EXPECT_NE(after, before) << type << "." << field << " is neither read nor refused";
  // The sizes that others must agree with are named with those.
  if (IsError(after) && field != "head_dim" && type + "." + field != "phi3.partial_rotary_factor") {
    EXPECT_THAT(after, ::testing::HasSubstr(field)) << type;
  }
}

TEST(TransformersFields, OfEveryServedTypeAreReadRefusedOrHarmless) {
  std::set<std::string> seen;
  std::vector<std::string> types;
  for (const auto& [type, fields] : FieldTable().at("fields").items()) {
    types.push_back(type);
    for (const auto& [field, by_default] : fields.items()) {
      seen.insert(field);
      ExpectFieldCounts(type, field, by_default);
    }
  }
  EXPECT_THAT(types, ::testing::UnorderedElementsAreArray(
                         std::vector<std::string>(absl::StrSplit(ModelTypes(), ", "))));
  for (const auto& [field, why] : Harmless()) {
    EXPECT_EQ(seen.count(field), 1u) << field << " is a field of no type";
  }
}

TEST(TransformersFields, OlderFieldsAtTheTopCountTooWhateverRopeParametersHas) {
  const FieldsJson& older = FieldTable().at("older");
  for (const auto& [type, fields] : FieldTable().at("fields").items()) {
    for (const auto& [field, by_default] : older.at("*").items()) {
      ExpectFieldCounts(type, field, by_default);
    }
    if (!older.contains(type)) continue;
    for (const auto& [field, by_default] : older.at(type).items()) {
      ExpectFieldCounts(type, field, by_default);
    }
  }
}

TEST(TransformersFields, InsideRopeParametersAreReadWhereTheirTypeHasThem) {
  // The fields that each type of scaling uses.
  const std::map<std::string, FieldsJson> uses = {
      {"linear", {{"rope_theta", 500}, {"factor", 2.0}}},
      {"llama3",
       {{"rope_theta", 500},
        {"factor", 2.0},
        {"low_freq_factor", 1.0},
        {"high_freq_factor", 4.0},
        {"original_max_position_embeddings", 64}}},
      {"yarn",
       {{"rope_theta", 500},
        {"factor", 2.0},
        {"original_max_position_embeddings", 128},
        {"attention_factor", 1.5},
        {"beta_fast", 32.0},
        {"beta_slow", 1.0},
        {"truncate", true}}},
      {"longrope",
       {{"rope_theta", 500},
        {"factor", 2.0},
        {"original_max_position_embeddings", 128},
        {"long_factor", {1, 2, 3, 4}},
        {"short_factor", {1, 1, 1, 2}}}}};
  std::set<std::string> seen = {"rope_type", "mscale", "mscale_all_dim"};
  for (const auto& [type, fields] : uses) {
    FieldsJson config = SmallConfig("llama");
    config["rope_parameters"] = fields;
    config["rope_parameters"]["rope_type"] = type;
    const std::string before = Meaning(config);
    ASSERT_FALSE(IsError(before)) << before;
    for (const auto& [field, value] : fields.items()) {
      seen.insert(field);
      FieldsJson changed = config;
      changed["rope_parameters"][field] =
          value.is_array() ? FieldsJson({4, 3, 2, 1}) : OtherValue("llama", field, value);
      EXPECT_NE(Meaning(changed), before) << type << ": " << field;
    }
  }
  FieldsJson both = SmallConfig("llama");
  both["rope_parameters"].update({{"mscale", 1.5}, {"mscale_all_dim", 1.0}});
  EXPECT_NE(Meaning(both), Meaning(SmallConfig("llama")));
  for (const char* field : {"partial_rotary_factor", "mrope_section"}) {
    seen.insert(field);
    FieldsJson changed = SmallConfig("llama");
    changed["rope_parameters"][field] = 0.5;
    EXPECT_THAT(Meaning(changed),
                ::testing::StartsWith(absl::StrCat("config.json: rope_parameters.", field, " ")));
  }
  for (const FieldsJson& field : FieldTable().at("rope_parameters")) {
    EXPECT_EQ(seen.count(field.get<std::string>()), 1u) << field;
  }
}

}  // namespace
}  // namespace baton
