// The objects that /v1/responses answers with: a response, and the items of its output.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "baton/v1/generation.pb.h"
#include "router/api/answer_blocks.h"
#include "router/api/answer_format.h"

namespace baton {

// A response in progress to the request `body`, which has been read without error: no output and no
// usage yet, and all fields that tell how the request was understood. temperature and top_p are 1
// where the request leaves them to the model.
nlohmann::ordered_json NewResponse(const nlohmann::ordered_json& body, const ApiContext& context);

// `status` is in_progress (then without content), completed or incomplete. `request_id` and
// `index`, that of the item, make up the ids of messages and reasoning.
nlohmann::ordered_json OutputItem(const AnswerBlock& block, const std::string& request_id,
                                  size_t index, const std::string& status);
std::string OutputItemId(const AnswerBlock& block, const std::string& request_id, size_t index);

// The only part of a message or of reasoning.
nlohmann::ordered_json ContentPart(const AnswerBlock& block);
nlohmann::ordered_json LogprobList(const std::vector<v1::TokenLogprob>& logprobs);

nlohmann::ordered_json ResponseUsage(const v1::Usage& usage);

}  // namespace baton
