// Every field of OpenAI's requests, and of vLLM's that change an answer: what becomes of it. And
// llama-server's for the form of an answer, since who sends one would be served wrongly without it.
// docs/openai.md says the same to clients.
#pragma once

#include "absl/types/span.h"

#include "router/api/json_fields.h"

namespace baton {

enum class Handling {
  kServed,
  kTolerated,  // ignored, as unknown fields are
  kRefused,    // an error that names it
};

struct FieldHandling {
  const char* name;
  Handling handling = Handling::kServed;
  // JSON: beside null, the value of a refused field that asks for nothing.
  const char* harmless = "null";
};

absl::Span<const FieldHandling> ChatFieldTable();
absl::Span<const FieldHandling> CompletionFieldTable();

// Refuses those fields of the table that are to be refused.
void RefuseFields(absl::Span<const FieldHandling> table, JsonFields& fields);

}  // namespace baton
