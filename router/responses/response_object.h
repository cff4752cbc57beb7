// The objects that /v1/responses answers with: a response, and the items of its output.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include <nlohmann/json.hpp>

#include "baton/v1/generation.pb.h"
#include "router/api/answer_blocks.h"
#include "router/api/answer_format.h"

namespace baton {

// Returns a response in progress to the request `body`, which has been read without error. It has
// no output and no usage yet, and all fields that show how the request was understood. A
// temperature or top_p that the request does not set is that of the context's default_sampling.
nlohmann::ordered_json NewResponse(const nlohmann::ordered_json& body, const ApiContext& context);

// The parts of an item that grow while it is generated, as texts of JSON.
struct ItemContent {
  absl::Cord text{};      // what stands between the quotes of the string
  absl::Cord logprobs{};  // what stands between the brackets of the array
};

// Returns the item as JSON. `status` is in_progress (then without content), completed or
// incomplete. `answer_id` and the item's `index` make up the ids of messages and reasoning.
absl::Cord OutputItem(const AnswerBlock& block, const ItemContent& content,
                      const std::string& answer_id, size_t index, const std::string& status);
std::string OutputItemId(const AnswerBlock& block, const std::string& answer_id, size_t index);

// Returns the only part of a message or of reasoning as JSON.
absl::Cord ContentPart(AnswerBlock::Kind kind, const ItemContent& content);
// Returns what stands between the brackets of the array of these log probabilities.
std::string LogprobTexts(const std::vector<v1::TokenLogprob>& logprobs);

nlohmann::ordered_json ResponseUsage(const v1::Usage& usage);

}  // namespace baton
