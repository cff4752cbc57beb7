// POST /v1/responses: OpenAI's newer API as one of Baton's requests.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "router/api/answer_format.h"
#include "router/openai/field_table.h"

namespace baton {

// What becomes of the body's fields; docs/dialects.md shows the table. Beside these, what
// ReadSamplingFields, ReadRoutingFields and ReadTemplateFields read is served, such as seed, min_p
// and priority.
absl::Span<const FieldHandling> ResponsesFields();

// One prompt with one choice. INVALID_ARGUMENT names the field.
absl::StatusOr<ApiRequest> ReadResponsesRequest(absl::string_view body, const ApiContext& context);

// The request alone, as ReadResponsesRequest has it.
absl::StatusOr<v1::GenerateRequest> ReadResponsesPrompt(const nlohmann::ordered_json& body,
                                                        const ApiContext& context);

// An error of the router (not of a function above) with this API's name of the field.
ApiError InResponsesWords(ApiError error);

}  // namespace baton
