// Answers of /v1/completions.
#pragma once

#include <cstddef>
#include <memory>

#include "router/api/answer_format.h"
#include "router/openai/answer_json.h"

namespace baton {

// For `prompts` prompts, whose choices have the index prompt * options.choices + choice.
std::unique_ptr<AnswerFormat> NewCompletionAnswer(AnswerOptions options, size_t prompts);

}  // namespace baton
