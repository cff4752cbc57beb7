#include "router/openai/chat_request.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/rpc/limits.h"
#include "router/api/tool_answers.h"
#include "router/openai/chat_answer.h"
#include "router/openai/chat_fields.h"
#include "router/openai/field_table.h"
#include "router/tools/client_parser.h"

namespace baton {
namespace {

// logprobs and top_logprobs. Returns whether the answer has them.
bool ReadChatLogprobs(JsonFields& fields, v1::SamplingParams& params) {
  const bool logprobs = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs", 0, kMaxLogprobs);
  if (logprobs) params.set_logprobs(static_cast<int32_t>(top.value_or(0)));
  if (top.value_or(0) > 0 && !logprobs) fields.Fail("top_logprobs", "needs logprobs to be true");
  return logprobs;
}

// A template would join them, or leave one out.
void CheckEnd(JsonFields& fields, const v1::ChatInput& chat) {
  const int count = chat.messages_size();
  const auto is_assistants = [&](int i) { return chat.messages(i).role() == "assistant"; };
  if (count >= 2 && is_assistants(count - 1) && is_assistants(count - 2)) {
    fields.Fail("messages", "must not end with two messages of the assistant");
  }
}

}  // namespace

absl::StatusOr<ApiRequest> ReadChatRequest(absl::string_view body, const ApiContext& context) {
  BATON_ASSIGN_OR_RETURN(const nlohmann::ordered_json json, ParseJsonBody(body));
  JsonFields fields(json);
  RefuseFields(ChatFieldTable(), fields);
  v1::GenerateRequest request;
  v1::SamplingParams& params = *request.mutable_sampling_params();
  v1::ChatInput& chat = *request.mutable_chat();
  ReadRoutingFields(fields, context, request);
  ReadMessages(fields, chat);
  CheckEnd(fields, chat);
  const auto tools = std::make_shared<ToolTable>();
  ReadTools(fields, chat, *tools);
  ReadTemplateFields(fields, chat);
  ReadSamplingFields(fields, params);
  ReadMaxTokens(fields, params);
  ReadFormFields(fields, request);
  ChatAnswerOptions options{
      .answer = {.id = absl::StrCat("chatcmpl-", context.answer_id),
                 .model = context.model,
                 .created = context.created,
                 .stream = ReadStreamFields(fields),
                 .choices = params.has_n() ? params.n() : 1,
                 .logprobs = ReadChatLogprobs(fields, params),
                 .return_timings = fields.Bool("return_timings").value_or(false),
                 .return_token_ids = request.return_token_ids()},
      .old_functions = fields.Find("functions") != nullptr};
  BATON_RETURN_IF_ERROR(fields.status());

  const StreamFields stream = options.answer.stream;
  request.set_stream(stream.stream);
  // The answer counts them: all that came, and those of the reasoning.
  if (stream.continuous_usage || (stream.stream && context.tool_form.has_reasoning())) {
    request.set_return_token_ids(true);
  }
  LeaveMarkers(context.tool_form, request);
  ApiRequest result{.stream = stream.stream, .warning = tools->Warning()};
  auto parsers =
      ForClient(ParsersOf(context, chat, static_cast<int>(options.answer.choices)), tools);
  result.format = NewChatAnswer(std::move(options), std::move(parsers));
  result.prompts.push_back(std::move(request));
  return result;
}

}  // namespace baton
