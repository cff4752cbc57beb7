#include "router/openai/field_table.h"

namespace baton {
namespace {

using enum Handling;

constexpr FieldHandling kChat[] = {
    // OpenAI's.
    {"messages"},
    {"model"},
    {"audio", kRefused},
    {"frequency_penalty"},
    {"function_call"},
    {"functions"},
    {"logit_bias"},
    {"logprobs"},
    {"max_completion_tokens"},
    {"max_tokens"},
    {"metadata", kTolerated},
    {"modalities", kRefused, R"(["text"])"},
    {"moderation", kTolerated},
    {"n"},
    {"parallel_tool_calls"},
    {"prediction", kTolerated},
    {"presence_penalty"},
    {"prompt_cache_key", kTolerated},
    {"prompt_cache_options", kTolerated},
    {"prompt_cache_retention", kTolerated},
    {"reasoning_effort"},
    {"response_format"},
    {"safety_identifier", kTolerated},
    {"seed"},
    {"service_tier", kTolerated},
    {"stop"},
    {"store", kTolerated},
    {"stream"},
    {"stream_options"},
    {"temperature"},
    {"tool_choice"},
    {"tools"},
    {"top_logprobs"},
    {"top_p"},
    {"user"},
    {"verbosity", kTolerated},
    {"web_search_options", kRefused},
    // vLLM's.
    {"add_generation_prompt"},
    {"add_special_tokens"},
    {"allowed_token_ids", kRefused},
    {"bad_words"},
    {"cache_salt"},
    {"chat_template", kRefused},
    {"chat_template_kwargs"},
    {"continue_final_message", kRefused, "false"},
    {"documents", kRefused},
    {"echo", kRefused, "false"},
    {"guided_choice"},
    {"guided_grammar"},
    {"guided_json"},
    {"guided_regex"},
    {"ignore_eos"},
    {"include_stop_str_in_output"},
    {"length_penalty", kRefused, "1.0"},
    {"logits_processors", kRefused},
    {"min_p"},
    {"min_tokens"},
    {"priority"},
    {"prompt_logprobs", kRefused},
    {"repetition_penalty"},
    {"request_id"},
    {"return_token_ids"},
    {"skip_special_tokens"},
    {"stop_token_ids"},
    {"structured_outputs"},
    {"top_k"},
    {"truncate_prompt_tokens"},
    {"use_beam_search", kRefused, "false"},
    // llama-server's.
    {"grammar"},
    {"json_schema"},
    // Baton's.
    {"return_timings"},
    {"speculative"},
};

constexpr FieldHandling kCompletion[] = {
    // OpenAI's.
    {"model"},
    {"prompt"},
    {"best_of", kRefused, "1"},
    {"echo"},
    {"frequency_penalty"},
    {"logit_bias"},
    {"logprobs"},
    {"max_tokens"},
    {"n"},
    {"presence_penalty"},
    {"seed"},
    {"stop"},
    {"stream"},
    {"stream_options"},
    {"suffix", kRefused, R"("")"},
    {"temperature"},
    {"top_p"},
    {"user"},
    // vLLM's.
    {"add_special_tokens"},
    {"allowed_token_ids", kRefused},
    {"bad_words"},
    {"cache_salt"},
    {"guided_choice"},
    {"guided_grammar"},
    {"guided_json"},
    {"guided_regex"},
    {"ignore_eos"},
    {"include_stop_str_in_output"},
    {"length_penalty", kRefused, "1.0"},
    {"logits_processors", kRefused},
    {"max_completion_tokens"},
    {"min_p"},
    {"min_tokens"},
    {"priority"},
    {"prompt_embeds", kRefused},
    {"prompt_logprobs", kRefused},
    {"repetition_penalty"},
    {"request_id"},
    {"response_format"},
    {"return_token_ids"},
    {"skip_special_tokens"},
    {"stop_token_ids"},
    {"structured_outputs"},
    {"top_k"},
    {"truncate_prompt_tokens"},
    {"use_beam_search", kRefused, "false"},
    // llama-server's.
    {"grammar"},
    {"json_schema"},
    // Baton's.
    {"parse_special"},
    {"return_timings"},
    {"speculative"},
};

}  // namespace

absl::Span<const FieldHandling> ChatFieldTable() { return kChat; }
absl::Span<const FieldHandling> CompletionFieldTable() { return kCompletion; }

void RefuseFields(absl::Span<const FieldHandling> table, JsonFields& fields) {
  for (const FieldHandling& field : table) {
    if (field.handling != kRefused) continue;
    fields.Refuse(field.name, nlohmann::ordered_json::parse(field.harmless));
  }
}

}  // namespace baton
