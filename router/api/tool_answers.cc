#include "router/api/tool_answers.h"

#include "common/base/hash.h"

namespace baton {

void LeaveMarkers(const ToolForm& tool_form, v1::GenerateRequest& request) {
  const bool has_markers = request.chat().tools_size() > 0 || tool_form.has_reasoning();
  if (has_markers && tool_form.needs_special_tokens()) {
    request.mutable_sampling_params()->set_skip_special_tokens(false);
  }
}

std::unique_ptr<AnswerParser> ParserOf(const ApiContext& context, const v1::ChatInput& chat,
                                       int choice) {
  const Hash128 hash = ChainHash({}, context.request_id);
  return context.ToolFormFor(chat).NewParser(chat, hash.low, choice);
}

}  // namespace baton
