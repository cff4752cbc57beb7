#include "router/api/tool_answers.h"

#include <utility>

#include "common/base/hash.h"

namespace baton {

void LeaveMarkers(const ToolForm& tool_form, v1::GenerateRequest& request) {
  const bool has_markers = request.chat().tools_size() > 0 || tool_form.has_reasoning();
  if (has_markers && tool_form.needs_special_tokens()) {
    request.mutable_sampling_params()->set_skip_special_tokens(false);
    if (tool_form.needs_token_ids()) request.set_return_token_ids(true);
  }
}

std::vector<std::unique_ptr<AnswerParser>> ParsersOf(const ApiContext& context,
                                                     const v1::ChatInput& chat, int choices) {
  const Hash128 hash = ChainHash({}, context.answer_id);
  return context.ToolFormFor(chat).NewParsers(chat, hash.low, choices);
}

std::unique_ptr<AnswerParser> ParserOf(const ApiContext& context, const v1::ChatInput& chat) {
  return std::move(ParsersOf(context, chat, 1).front());
}

}  // namespace baton
