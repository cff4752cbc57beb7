// The keys of a model that come from its folder's tokenizer.json, tokenizer_config.json,
// chat_template.jinja, additional_chat_templates/tool_use.jinja, chat_template.json and
// generation_config.json.
//
// tokenizer.huggingface.json   tokenizer.json as it is
// tokenizer.chat_template      chat_template.jinja, else the template in tokenizer_config.json, of
//                              several the one named default, else that of chat_template.json
// tokenizer.chat_template.tool_use
//                              additional_chat_templates/tool_use.jinja, else, if there is no
//                              chat_template.jinja, the one named tool_use in those files
// tokenizer.ggml.bos_token_id, .eos_token_id
//                              those that tokenizer_config.json names by their text, else those of
//                              config.json, else of generation_config.json; the first of several
// tokenizer.ggml.eot_token_id, .eom_token_id
//                              the second and the third that end an answer
// tokenizer.ggml.eos_token_ids all that end an answer, of all three files, ascending
// tokenizer.ggml.add_bos_token, .add_eos_token
//                              if tokenizer_config.json says so
// general.sampling.temp, .top_k, .top_p, .min_p, .penalty_repeat
//                              of generation_config.json, floats as they are there
#pragma once

#include <string>

#include "absl/status/status.h"

#include "common/gguf/gguf_metadata.h"
#include "common/gguf/model_files.h"
#include "common/hugging_face/json_text.h"

namespace baton {

// Adds the files to `files` and the keys to `metadata`. Of the files only tokenizer.json must be
// there. Errors name the file, the field and the remedy.
absl::Status ReadTokenizerKeys(const std::string& folder, const JsonFileFields& config,
                               ModelFiles& files, GgufMetadata& metadata);

}  // namespace baton
