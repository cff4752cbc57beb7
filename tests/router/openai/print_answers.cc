// Prints answers of every shape, each a line {"schema", "body"}, for schemas_test.py.
#include <cstdio>

#include "router/openai/chat_answer.h"
#include "router/openai/completion_answer.h"
#include "router/openai/model_routes.h"
#include "tests/router/openai/responses.h"
#include "tests/router/openai/test_tool_form.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

void Print(const char* schema, const Json& body) {
  std::puts(DumpJson({{"schema", schema}, {"body", body}}).c_str());
}

void PrintAnswer(AnswerFormat& format, const std::vector<v1::GenerateResponse>& responses,
                 const AnswerOptions& options, const char* schema) {
  std::string out;
  format.Begin(0, 5);
  for (const v1::GenerateResponse& response : responses) format.Add(0, response, out);
  format.Finish(out);
  if (!options.stream.stream) return Print(schema, Json::parse(out));
  for (const Json& event : Events(out)) Print(schema, event);
}

void PrintAnswers(const AnswerOptions& options) {
  const std::string text = "<think>hm</think>Hello\xFF<call f>{\"a\":1}</call>";
  const std::vector<v1::TokenLogprob> logprobs = {Logprob("a", -0.1f, {{"a", -0.1f}, {"\xC3", -3}}),
                                                  Logprob("\xC3", -1, {{"a", -0.5f}})};
  std::vector<v1::GenerateResponse> responses;
  if (options.stream.stream) {
    responses.push_back(Chunk(0, text.substr(0, 30), logprobs));
    responses.push_back(Chunk(0, text.substr(30), logprobs));
    responses.push_back(Last(Complete(0, ""), 5, 4));
  } else {
    responses.push_back(Last(Complete(0, text, v1::FINISH_REASON_STOP, logprobs), 5, 4));
  }
  for (const bool old_functions : {false, true}) {
    std::vector<std::unique_ptr<AnswerParser>> parsers;
    parsers.push_back(NewTestParser(0));
    const auto chat =
        NewChatAnswer({.answer = options, .old_functions = old_functions}, std::move(parsers));
    PrintAnswer(*chat, responses, options,
                options.stream.stream ? "ChatCompletionChunk" : "ChatCompletion");
  }
  v1::GenerateResponse& first = responses.front();
  v1::TokenLogprob& prompt = options.stream.stream
                                 ? *first.mutable_chunk()->add_prompt_logprobs()
                                 : *first.mutable_complete()->add_prompt_logprobs();
  prompt.set_token("<think>");
  PrintAnswer(*NewCompletionAnswer(options, 1), responses, options, "Completion");
}

void PrintAll() {
  for (const bool stream : {false, true}) {
    for (const bool more : {false, true}) {
      PrintAnswers({.id = "id",
                    .model = "m",
                    .created = 17,
                    .stream = {.stream = stream, .include_usage = more, .continuous_usage = more},
                    .logprobs = more,
                    .return_timings = more,
                    .return_token_ids = more});
    }
  }
  v1::ListModelsResponse models;
  models.add_models()->set_id("org/m");
  models.add_models()->set_id("n");
  Print("ModelList", Json::parse(ModelListBody(models)));
  Print("Model", Json::parse(ModelBody(models.models(0))));
  const ApiError errors[] = {{.status = 400, .type = "invalid_request_error", .message = "m"},
                             {.type = "server_error", .code = "c", .param = "p", .message = "m"}};
  for (const ApiError& error : errors) {
    Print("ErrorObject", Json::parse(OpenAiErrorBody(error))["error"]);
  }
}

}  // namespace
}  // namespace baton

int main() { baton::PrintAll(); }
