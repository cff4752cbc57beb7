#include "router/openai/common_fields.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/rpc/limits.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMinInt32 = std::numeric_limits<int32_t>::min();
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr double kMaxExact =
    9007199254740991;  // 2^53 - 1; a double tells whole numbers apart up to it

// Any 64 bits: clients send signed numbers, and Baton's seeds are unsigned ones.
std::optional<uint64_t> Seed(JsonFields& fields) {
  const Json* const value = fields.Find("seed");
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (value->is_number_integer()) return static_cast<uint64_t>(value->get<int64_t>());
  if (value->is_number_float()) {
    const auto number = value->get<double>();
    if (number == std::floor(number) && std::abs(number) <= kMaxExact) {
      return static_cast<uint64_t>(static_cast<int64_t>(number));
    }
  }
  fields.Fail("seed", absl::StrCat("must be a whole number of 64 bits",
                                   value->is_number() ? absl::StrCat(", is ", value->dump()) : ""));
  return std::nullopt;
}

// A string or a list of strings.
void ReadStrings(JsonFields& fields, absl::string_view name, int most,
                 google::protobuf::RepeatedPtrField<std::string>& strings) {
  const Json* const value = fields.Find(name);
  if (value == nullptr) return;
  if (value->is_string()) {
    strings.Add(value->get<std::string>());
    return;
  }
  if (!value->is_array()) return fields.Fail(name, "must be a string or a list of strings");
  if (value->size() > static_cast<size_t>(most)) {
    return fields.Fail(
        name, absl::StrCat("has ", value->size(), " strings, at most ", most, " are allowed"));
  }
  for (const Json& text : *value) {
    if (!text.is_string()) return fields.Fail(name, "must be a string or a list of strings");
    strings.Add(text.get<std::string>());
  }
}

void ReadLogitBias(JsonFields& fields, v1::SamplingParams& params) {
  const Json* const biases = fields.Object("logit_bias");
  if (biases == nullptr) return;
  for (const auto& [key, bias] : biases->items()) {
    uint32_t id = 0;
    const bool digits = !key.empty() && absl::ascii_isdigit(static_cast<unsigned char>(key[0]));
    if (!digits || !absl::SimpleAtoi(key, &id)) {
      return fields.Fail("logit_bias",
                         absl::StrCat("has the key ", DumpJson(key).substr(0, kMaxNameBytes),
                                      ", which is not a token id"));
    }
    if (bias.is_null()) continue;
    const double number =
        bias.is_number() ? bias.get<double>() : std::numeric_limits<double>::infinity();
    if (std::abs(number) > std::numeric_limits<float>::max()) {
      return fields.Fail("logit_bias", absl::StrCat("has no number for token ", key));
    }
    (*params.mutable_logit_bias())[id] = static_cast<float>(number);
  }
}

constexpr std::pair<const char*, v1::Speculative> kSpeculative[] = {
    {"auto", v1::SPECULATIVE_AUTO},
    {"ngram", v1::SPECULATIVE_NGRAM},
    {"draft", v1::SPECULATIVE_DRAFT},
    {"none", v1::SPECULATIVE_NONE},
};

void ReadSpeculative(JsonFields& fields, v1::GenerateRequest& request) {
  const std::optional<std::string> name = fields.String("speculative");
  if (!name.has_value()) return;
  for (const auto& [known, speculative] : kSpeculative) {
    if (*name == known) return request.set_speculative(speculative);
  }
  fields.Fail("speculative", "must be auto, ngram, draft or none");
}

}  // namespace

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void ReadTokenIds(JsonFields& fields, absl::string_view name, const Json& array,
                  google::protobuf::RepeatedField<uint32_t>& ids) {
  for (const Json& id : array) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(kMaxUint32)) {
      return fields.Fail(name, absl::StrCat("has ", DumpJson(id).substr(0, kMaxNameBytes),
                                            " where a token id is due"));
    }
    ids.Add(id.get<uint32_t>());
  }
}

void ReadSamplingFields(JsonFields& fields, v1::SamplingParams& params) {
  using Params = v1::SamplingParams;
  const std::pair<const char*, void (Params::*)(float)> numbers[] = {
      {"temperature", &Params::set_temperature},
      {"top_p", &Params::set_top_p},
      {"min_p", &Params::set_min_p},
      {"presence_penalty", &Params::set_presence_penalty},
      {"frequency_penalty", &Params::set_frequency_penalty},
      {"repetition_penalty", &Params::set_repetition_penalty},
  };
  for (const auto& [name, set] : numbers) {
    if (const auto value = fields.Number(name)) (params.*set)(static_cast<float>(*value));
  }
  const std::pair<const char*, void (Params::*)(bool)> flags[] = {
      {"ignore_eos", &Params::set_ignore_eos},
      {"include_stop_str_in_output", &Params::set_include_stop_str_in_output},
      {"skip_special_tokens", &Params::set_skip_special_tokens},
  };
  for (const auto& [name, set] : flags) {
    if (const auto value = fields.Bool(name)) (params.*set)(*value);
  }
  const std::pair<const char*, void (Params::*)(uint32_t)> counts[] = {
      {"min_tokens", &Params::set_min_tokens},
      {"truncate_prompt_tokens", &Params::set_truncate_prompt_tokens},
  };
  for (const auto& [name, set] : counts) {
    if (const auto value = fields.Integer(name, 0, kMaxUint32)) {
      (params.*set)(static_cast<uint32_t>(*value));
    }
  }
  if (const auto top_k = fields.Integer("top_k", kMinInt32, kMaxInt32)) {
    params.set_top_k(static_cast<int32_t>(*top_k));
  }
  if (const auto n = fields.Integer("n", 1, kMaxChoices)) params.set_n(static_cast<uint32_t>(*n));
  if (const auto seed = Seed(fields)) params.set_seed(*seed);
  ReadStrings(fields, "stop", kMaxStopStrings, *params.mutable_stop());
  ReadStrings(fields, "bad_words", kMaxStopStrings, *params.mutable_bad_words());
  if (const Json* const ids = fields.Array("stop_token_ids")) {
    ReadTokenIds(fields, "stop_token_ids", *ids, *params.mutable_stop_token_ids());
  }
  ReadLogitBias(fields, params);
}

void ReadMaxTokens(JsonFields& fields, v1::SamplingParams& params) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (const auto most = fields.Integer(name, 0, kMaxUint32)) {
      params.set_max_tokens(static_cast<uint32_t>(*most));
    }
  }
}

void ReadRoutingFields(JsonFields& fields, const ApiContext& context,
                       v1::GenerateRequest& request) {
  request.set_request_id(fields.String("request_id").value_or(context.request_id));
  request.set_model(fields.String("model").value_or(""));
  request.set_user(fields.String("user").value_or(""));
  request.set_cache_salt(fields.String("cache_salt").value_or(""));
  request.set_return_token_ids(fields.Bool("return_token_ids").value_or(false));
  if (const auto add = fields.Bool("add_special_tokens")) request.set_add_special_tokens(*add);
  request.set_priority(
      static_cast<int32_t>(fields.Integer("priority", kMinInt32, kMaxInt32).value_or(0)));
  ReadSpeculative(fields, request);
}

StreamFields ReadStreamFields(JsonFields& fields) {
  StreamFields result{.stream = fields.Bool("stream").value_or(false)};
  const Json* const options = fields.Object("stream_options");
  if (options == nullptr) return result;
  if (!result.stream) {
    fields.Fail("stream_options", "is only allowed where stream is true");
    return result;
  }
  JsonFields inner(*options, fields.PathOf("stream_options"));
  result.include_usage = inner.Bool("include_usage").value_or(false);
  result.continuous_usage =
      inner.Bool("continuous_usage_stats").value_or(false) && result.include_usage;
  fields.Adopt(inner.status());
  return result;
}

}  // namespace baton
