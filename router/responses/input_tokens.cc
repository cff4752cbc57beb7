#include "router/responses/input_tokens.h"

#include "common/base/status_macros.h"
#include "router/api/json_fields.h"
#include "router/openai/common_fields.h"
#include "router/responses/responses_request.h"

namespace baton {

absl::StatusOr<v1::GenerateRequest> ReadInputTokens(absl::string_view body,
                                                    const ApiContext& context) {
  BATON_ASSIGN_OR_RETURN(const nlohmann::ordered_json json, ParseJsonBody(body));
  return ReadResponsesPrompt(json, context);
}

std::string InputTokensBody(uint32_t prompt_tokens) {
  return DumpJson({{"object", "response.input_tokens"}, {"input_tokens", prompt_tokens}});
}

}  // namespace baton
