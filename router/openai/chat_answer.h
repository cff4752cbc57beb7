// Answers of /v1/chat/completions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "router/api/answer_format.h"
#include "router/openai/answer_json.h"

namespace baton {

struct ChatAnswerOptions {
  AnswerOptions answer{};
  // The request had `functions`, tools in their old form, and is answered in it.
  bool old_functions = false;
};

// `parsers` has one for each choice. The format is for one prompt. The tokens before the first text or
// call count as reasoning if there is any; only a stream reports how many, by its token ids.
std::unique_ptr<AnswerFormat> NewChatAnswer(ChatAnswerOptions options,
                                            std::vector<std::unique_ptr<AnswerParser>> parsers);

}  // namespace baton
