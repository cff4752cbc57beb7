// Requests of /v1/completions.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "router/api/answer_format.h"

namespace baton {

// Most prompts of one request.
inline constexpr size_t kMaxPrompts = 128;
// The length of an answer to a request that names none, as OpenAI's API has it.
inline constexpr uint32_t kDefaultCompletionTokens = 16;

// The body as Baton's requests, one for each prompt, and their answer's form. Literals of special
// tokens in a prompt become control tokens, as at vLLM and llama.cpp, unless parse_special is
// false: clients send prompts that they have rendered by a chat template. INVALID_ARGUMENT names
// the field that is wrong; ranges are left to ValidateGenerateRequest. Thread-safe.
absl::StatusOr<ApiRequest> ReadCompletionRequest(absl::string_view body, const ApiContext& context);

}  // namespace baton
