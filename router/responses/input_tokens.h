// POST /v1/responses/input_tokens: the tokens of a request's prompt.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "router/api/answer_format.h"

namespace baton {

// A request whose prompt is to be counted. The body is read as that of /v1/responses.
absl::StatusOr<v1::GenerateRequest> ReadInputTokens(absl::string_view body,
                                                    const ApiContext& context);
// {"object": "response.input_tokens", "input_tokens"}
std::string InputTokensBody(uint32_t prompt_tokens);

}  // namespace baton
