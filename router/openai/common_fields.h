// The fields that the requests of the JSON APIs share: how to sample, for whom, in what form, and
// whether to stream. Each function reads its fields, keeps the first error in `fields`, and leaves
// ranges to ValidateGenerateRequest (common/protocol/validate_request.h), which knows the model.
#pragma once

#include <cstdint>
#include <optional>

#include "google/protobuf/repeated_field.h"

#include "baton/v1/generation.pb.h"
#include "router/api/answer_format.h"
#include "router/api/json_fields.h"

namespace baton {

// temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty,
// min_tokens, n, seed, stop (a string or a list), stop_token_ids, ignore_eos,
// include_stop_str_in_output, skip_special_tokens, logit_bias, bad_words, truncate_prompt_tokens.
void ReadSamplingFields(JsonFields& fields, v1::SamplingParams& params);

// max_completion_tokens, or max_tokens where only that is there.
void ReadMaxTokens(JsonFields& fields, v1::SamplingParams& params);

// model, user, priority, cache_salt, speculative, return_token_ids, add_special_tokens and
// request_id, which is the HTTP request's if the body has none.
void ReadRoutingFields(JsonFields& fields, const ApiContext& context, v1::GenerateRequest& request);

// response_format as OpenAI's chat API has it, vLLM's structured_outputs, its older guided_json,
// guided_regex, guided_grammar and guided_choice, and llama-server's grammar and json_schema. At
// most one of them, and none beside a form that `request` has already. A part of a form that is not
// read is an error that names it.
void ReadFormFields(JsonFields& fields, v1::GenerateRequest& request);
// The form {"type": "text" | "json_object" | "json_schema"} of `format`; nothing is set for
// text. `schema_is_inside`: the schema is in an object "json_schema" (chat), or beside the type
// (responses). Type json_schema must have a schema, and the others refuse one that they do not read.
void ReadTypedForm(JsonFields& format, bool schema_is_inside, v1::GenerateRequest& request);

struct StreamFields {
  bool stream = false;
  bool include_usage = false;     // whether a last chunk has the usage
  bool continuous_usage = false;  // and so does every other
};
// stream, and stream_options, which only a stream has.
StreamFields ReadStreamFields(JsonFields& fields);

// The list of token ids `array`, which stands in the field `name`.
void ReadTokenIds(JsonFields& fields, absl::string_view name, const nlohmann::ordered_json& array,
                  google::protobuf::RepeatedField<uint32_t>& ids);

// JSON text; what is no UTF-8 in it is replaced.
std::string DumpJson(const nlohmann::ordered_json& json);

}  // namespace baton
