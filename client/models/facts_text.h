// The facts of models as `baton models` prints them.
#pragma once

#include <string>

#include "absl/types/span.h"

#include "client/models/model_facts.h"

namespace baton {

// A table with a line for each model, and for each that is not served a second one that says why.
// Texts of files are printable ASCII in it; an error is as ShownLine shows it.
std::string FactsTable(absl::Span<const ModelFacts> models);

// {"models": [{"path", "name", "architecture", "parameters", "weight_types": [{"type", "bytes"}],
// "file_bytes", "weight_bytes", "context_length", "max_model_len", "kv": [{"type",
// "bytes_per_token", "bytes"}], "tokenizer", "chat_template", "served", "error"}]} and a newline.
// "error" is there if "served" is false. What is not UTF-8 becomes U+FFFD.
std::string FactsJson(absl::Span<const ModelFacts> models);

}  // namespace baton
