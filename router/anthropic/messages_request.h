// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API as one of Baton's requests.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "router/api/answer_format.h"
#include "router/openai/field_table.h"

namespace baton {

// What becomes of the body's fields; docs/dialects.md shows the table. Beside these, what
// ReadSamplingFields, ReadRoutingFields and ReadTemplateFields read is served, such as seed, min_p
// and priority.
absl::Span<const FieldHandling> MessagesFields();

// One prompt with one choice. INVALID_ARGUMENT names the field.
absl::StatusOr<ApiRequest> ReadMessagesRequest(absl::string_view body, const ApiContext& context);

// The request alone, as ReadMessagesRequest has it.
absl::StatusOr<v1::GenerateRequest> ReadMessagesPrompt(const nlohmann::ordered_json& body,
                                                       const ApiContext& context);

// A request whose prompt is to be counted, from the body of /v1/messages/count_tokens: max_tokens
// may be absent there.
absl::StatusOr<v1::GenerateRequest> ReadCountTokens(absl::string_view body,
                                                    const ApiContext& context);
// The answer to it: {"input_tokens": ...}.
std::string CountTokensBody(uint32_t prompt_tokens);

// An error of the router (not of a function above) with this API's name of the field.
ApiError InMessagesWords(ApiError error);

}  // namespace baton
