// Opens a model as people have it: a GGUF file, the first file of a split one, or a Hugging Face
// folder.
//
// A folder has config.json, tokenizer.json and its weights (model.safetensors, or
// model.safetensors.index.json and the shards that it names), and may have generation_config.json,
// tokenizer_config.json, chat_template.jinja, chat_template.json and
// additional_chat_templates/tool_use.jinja. Nothing else in it is read. What is read appears under
// the names that GGUF has for it: config_translation.h, tokenizer_keys.h and model_type.h say how.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "common/gguf/gguf_file.h"

namespace baton {

// `path`: of a file or a folder. For Part::kTokenizer the weights may be missing. Errors name the
// file, the field or tensor, and the remedy.
absl::StatusOr<GgufFile> OpenModelFile(const std::string& path,
                                       GgufFile::Part part = GgufFile::Part::kAll);

}  // namespace baton
