// Answers requests to /v1/responses and /v1/messages as the router would, with answers that are
// given: sdk_types_test.py's other end. Each line of stdin is {"path", "body", "text", "tokens",
// "finish_reason", "stop", "fails"}, where text has ScriptedParser's form; each line of stdout
// {"status", "body"}.
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "router/anthropic/messages_format.h"
#include "router/anthropic/messages_request.h"
#include "router/openai/common_fields.h"
#include "router/responses/response_object.h"
#include "router/responses/responses_format.h"
#include "router/responses/responses_request.h"
#include "tests/router/api/played_answer.h"
#include "tests/router/api/scripted_parser.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

PlayedAnswer AnswerOf(const Json& line) {
  return {.text = line.value("text", ""),
          .tokens = line.value("tokens", std::vector<std::string>()),
          .finish_reason = line.value("finish_reason", "stop") == "stop" ? v1::FINISH_REASON_STOP
                                                                         : v1::FINISH_REASON_LENGTH,
          .stop = line.value("stop", "")};
}

Json Answer(const Json& line) {
  const ToolForm form{};
  const ApiContext context = {.model = "m",
                              .request_id = "req1",
                              .answer_id = "ans1",
                              .created = 1700000000,
                              .tool_form = form};
  const bool responses = line.at("path") == "/v1/responses";
  const Json body = Json::parse(line.at("body").get<std::string>());
  const auto request =
      responses ? ReadResponsesPrompt(body, context) : ReadMessagesPrompt(body, context);
  if (!request.ok()) {
    const ApiError error = ApiErrorOf(request.status());
    return {{"status", error.status},
            {"body", responses ? OpenAiErrorBody(error) : AnthropicErrorBody(error, "req1")}};
  }
  std::unique_ptr<AnswerFormat> format;
  if (responses) {
    format = std::make_unique<ResponsesFormat>(NewResponse(body, context), request->stream(),
                                               NewScriptedParser());
  } else {
    format = std::make_unique<MessagesFormat>(
        MessagesFormat::Options{
            .request_id = "req1", .answer_id = "ans1", .model = "m", .stream = request->stream()},
        NewScriptedParser());
  }
  const PlayedAnswer answer = AnswerOf(line);
  std::mt19937 random(1);
  std::string out;
  format->Begin(0, 7);
  if (line.value("fails", false)) {
    format->Add(0, ChunkOf(answer.text), out);
    format->Fail(ApiErrorWithStatus(503, "no worker"), out);
  } else {
    out = Written(*format, request->stream() ? Streamed(answer, random) : Whole(answer));
  }
  return {{"status", 200}, {"body", out}};
}

}  // namespace
}  // namespace baton

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto answer = baton::Answer(nlohmann::ordered_json::parse(line));
    std::cout << baton::DumpJson(answer) << std::endl;
  }
}
