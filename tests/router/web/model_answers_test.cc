// What the HTTP API of a router answers about its model, over real sockets.
#include "router/web/model_answers.h"

#include <gmock/gmock.h>

#include "tests/router/web/web_fixture.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

httplib::Headers Anthropic() { return {{"anthropic-version", "2023-06-01"}}; }

class ModelAnswersTest : public WebFixture {
 protected:
  // The status of an answer and its body.
  std::pair<int, Json> Get(const std::string& path, const httplib::Headers& headers = {}) {
    const auto answer = NewClient().Get(path, headers);
    EXPECT_TRUE(answer);
    return {answer->status, Json::parse(answer->body)};
  }
  static Json Chat(const std::string& text, const Json& more = Json::object()) {
    Json body = {{"messages", {{{"role", "user"}, {"content", text}}}}};
    body.update(more);
    return body;
  }
};

TEST_F(ModelAnswersTest, AModelHasSeveralNamesAndAnswersWithTheFirst) {
  model_ = NewLetterModel({.served = {"a", "org/b"}, .aliases = {"claude-*", "gpt-*"}});
  AddPrefill();
  AddDecode();
  StartHttp();
  const auto [status, list] = Get("/v1/models");
  ASSERT_EQ(status, 200);
  ASSERT_EQ(list["data"].size(), 2u) << "aliases are not listed";
  EXPECT_EQ(list["data"][0]["id"], "a");
  EXPECT_EQ(list["data"][1]["id"], "org/b");
  EXPECT_EQ(Get("/v1/models/org/b").second["id"], "org/b");
  EXPECT_EQ(Get("/v1/models/claude-x").second["id"], "a");
  const auto [unknown, error] = Get("/v1/models/other");
  EXPECT_EQ(unknown, 404);
  EXPECT_EQ(error["error"]["code"], "model_not_found");
  EXPECT_THAT(error["error"]["message"].get<std::string>(), HasSubstr("served are 'a', 'org/b'"));
  for (const char* name : {"a", "org/b", "gpt-4o", "claude-sonnet-4-5"}) {
    Json request = Completion("abc", 3);
    request["model"] = name;
    const auto answer = Post("/v1/completions", request);
    ASSERT_EQ(answer->status, 200) << answer->body;
    EXPECT_EQ(Json::parse(answer->body)["model"], "a") << name;
    EXPECT_EQ(Post("/tokenize", {{"model", name}, {"prompt", "abc"}})->status, 200) << name;
  }
  Json request = Completion("abc", 3);
  request["model"] = "gpt4";
  const auto refused = Post("/v1/completions", request);
  EXPECT_EQ(refused->status, 404);
  EXPECT_THAT(refused->body, HasSubstr("and any name like 'claude-*', 'gpt-*'"));
  EXPECT_EQ(metrics_.Scrape().find("claude-sonnet"), std::string::npos)
      << "no label is a client's word";
}

TEST_F(ModelAnswersTest, GrpcHasTheSameNames) {
  model_ = NewLetterModel({.served = {"a", "b"}, .aliases = {"c*"}});
  StartHttp();
  grpc::ClientContext context;
  v1::ListModelsResponse models;
  ASSERT_TRUE(stub_->ListModels(&context, v1::ListModelsRequest(), &models).ok());
  ASSERT_EQ(models.models_size(), 2);
  EXPECT_EQ(models.models(0).id(), "a");
  EXPECT_EQ(models.models(1).id(), "b");
  v1::TokenizeRequest request;
  request.set_text("abc");
  for (const auto& [name, code] :
       {std::pair("b", grpc::StatusCode::OK), std::pair("cd", grpc::StatusCode::OK),
        std::pair("d", grpc::StatusCode::NOT_FOUND)}) {
    grpc::ClientContext of_call;
    v1::TokenizeResponse tokens;
    request.set_model(name);
    EXPECT_EQ(stub_->Tokenize(&of_call, request, &tokens).error_code(), code) << name;
  }
}

TEST_F(ModelAnswersTest, AnthropicsClientsGetAnthropicsListAndErrors) {
  model_ = NewLetterModel({.served = {"a", "b c"}, .aliases = {"claude-*"}});
  StartHttp();
  const auto [status, list] = Get("/v1/models?limit=1000", Anthropic());
  ASSERT_EQ(status, 200) << list;
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["type"], "model");
  EXPECT_EQ(list["first_id"], "a");
  EXPECT_EQ(list["has_more"], false);
  EXPECT_FALSE(list.contains("object"));
  EXPECT_EQ(Get("/v1/models?before_id=b%20c", Anthropic()).second["last_id"], "a");
  EXPECT_EQ(Get("/v1/models?limit=1&after_id=a", Anthropic()).second["first_id"], "b c");
  EXPECT_EQ(Get("/v1/models/claude-x", Anthropic()).second["display_name"], "a");
  for (const char* path : {"/v1/models?limit=0", "/v1/models?after_id=x", "/v1/models?limit=%"}) {
    const auto [wrong, error] = Get(path, Anthropic());
    EXPECT_EQ(wrong, 400) << path;
    EXPECT_EQ(error["type"], "error") << path;
  }
  for (const char* path : {"/v1/models/x", "/v1/organizations"}) {
    const auto [unknown, error] = Get(path, Anthropic());
    EXPECT_EQ(unknown, 404) << path;
    EXPECT_EQ(error["error"]["type"], "not_found_error") << path;
    EXPECT_TRUE(error.contains("request_id")) << path;
  }
  EXPECT_EQ(Get("/v1/models?limit=0").second["object"], "list") << "OpenAI's list has no pages";
}

TEST_F(ModelAnswersTest, ProbesAndTheVersionNeedNoKey) {
  options_.needs_identity = true;
  StartHttp();
  EXPECT_EQ(NewClient().Get("/ping")->status, 503) << "no worker is ready";
  const auto [status, version] = Get("/version");
  EXPECT_EQ(status, 200);
  EXPECT_THAT(version["version"].get<std::string>(), testing::MatchesRegex("[0-9]+\\..*"));
  EXPECT_EQ(NewClient().Get("/metrics")->status, 200) << "this machine may see them";
  EXPECT_EQ(NewClient().Get("/v1/models")->status, 401);
  Stop();
  http_->Close();
  AddPrefill();
  AddDecode();
  StartHttp();
  EXPECT_EQ(NewClient().Get("/ping")->status, 200);
  EXPECT_EQ(NewClient().Get("/ping")->body, NewClient().Get("/health")->body);
}

TEST_F(ModelAnswersTest, MetricsAreTheSameTextAsOnTheirOwnPort) {
  http_options_.cors_origins = {"*"};
  options_.http_cors_origins = {"*"};
  StartHttp();
  const auto answer = NewClient().Get("/metrics", {{"Origin", "http://" + http_->address()}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_FALSE(answer->has_header("Access-Control-Allow-Origin"));
  EXPECT_THAT(answer->body, HasSubstr("# TYPE baton_build_info gauge"));
  const auto get = [&](const httplib::Headers& headers) {
    return NewClient().Get("/metrics", headers)->status;
  };
  EXPECT_EQ(get({{"Origin", "https://evil.example"}}), 403);
  EXPECT_EQ(get({{"Host", "evil.example"}}), 403);
  const auto elsewhere = NewClient().Get("/metrics", {{"X-Forwarded-For", "203.0.113.7"}});
  EXPECT_EQ(elsewhere->status, 403);
  EXPECT_THAT(elsewhere->body, HasSubstr("/metrics is open to this machine and to operators"));
}

TEST_F(ModelAnswersTest, TheTokensOfAPromptAreTheSameByEveryRoute) {
  AddPrefill();
  AddDecode();
  StartHttp();
  const auto count = [&](const char* path, const Json& body, const char* field) -> int {
    const auto answer = Post(path, body);
    EXPECT_EQ(answer->status, 200) << answer->body;
    return Json::parse(answer->body)[field].get<int>();
  };
  const int tokens = count("/tokenize", Chat("abc"), "count");
  EXPECT_GT(tokens, 3);
  EXPECT_EQ(count("/v1/messages/count_tokens", Chat("abc"), "input_tokens"), tokens);
  EXPECT_EQ(count("/v1/responses/input_tokens", {{"input", "abc"}}, "input_tokens"), tokens);
  const Json items = {{"input", Chat("abc")["messages"]}};
  EXPECT_EQ(count("/responses/input_tokens", items, "input_tokens"), tokens);
  const auto wrong = Post("/v1/responses/input_tokens", {{"input", 3}});
  EXPECT_EQ(wrong->status, 400);
  EXPECT_EQ(Json::parse(wrong->body)["error"]["param"], "input");
  EXPECT_EQ(NewClient().Get("/v1/responses/input_tokens")->status, 405);
}

TEST_F(ModelAnswersTest, AnthropicsMaxTokensBeyondTheContextAreCutToWhatFits) {
  MockWorker::Options small;
  small.max_model_len = 64;
  AddWorker(internal::v1::WORKER_ROLE_PREFILL, small);
  AddWorker(internal::v1::WORKER_ROLE_DECODE, small);
  StartHttp();
  const Json chosen = {{"seed", 7}, {"ignore_eos", true}, {"temperature", 1}};
  const auto ask = [&](const std::string& text, int max_tokens, bool stream) {
    Json body = Chat(text, chosen);
    body["max_tokens"] = max_tokens;
    body["stream"] = stream;
    return Post("/v1/messages", body);
  };
  const int prompt = Json::parse(Post("/tokenize", Chat("abc"))->body)["count"].get<int>();
  for (const int max_tokens : {32000, 64 - prompt + 1}) {
    const auto answer = ask("abc", max_tokens, false);
    ASSERT_EQ(answer->status, 200) << answer->body;
    const Json message = Json::parse(answer->body);
    EXPECT_EQ(message["usage"]["output_tokens"], 64 - prompt);
    EXPECT_EQ(message["stop_reason"], "model_context_window_exceeded") << max_tokens;
    const auto stream = ask("abc", max_tokens, true);
    ASSERT_EQ(stream->status, 200) << stream->body;
    EXPECT_THAT(stream->body, HasSubstr(R"("stop_reason":"model_context_window_exceeded")"));
  }
  for (const int max_tokens : {64 - prompt, 5}) {
    const auto answer = ask("abc", max_tokens, false);
    ASSERT_EQ(answer->status, 200) << answer->body;
    EXPECT_EQ(Json::parse(answer->body)["stop_reason"], "max_tokens") << max_tokens;
  }
  EXPECT_EQ(ask(std::string(64, 'a'), 32000, false)->status, 400) << "the prompt alone is too long";
  Json body = Chat("abc", chosen);
  body["max_tokens"] = 32000;
  const auto chat = Post("/v1/chat/completions", body);
  EXPECT_EQ(chat->status, 400);
  EXPECT_EQ(Json::parse(chat->body)["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(Post("/v1/responses", {{"input", "abc"}, {"max_output_tokens", 32000}})->status, 400);
}

}  // namespace
}  // namespace baton
