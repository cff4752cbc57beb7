// The HTTP API of a router with mock workers, over real sockets.
#include "router/web/web_service.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "router/tenants/api_key.h"
#include "tests/router/web/web_fixture.h"

namespace baton {
namespace {

class WebServiceTest : public WebFixture {
 protected:
  // Gives `take` the pieces of an answer as they come, until it returns false.
  void Stream(const Json& body, const std::function<bool(const char*, size_t)>& take) {
    httplib::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.headers = {{"Content-Type", "application/json"}};
    request.body = body.dump();
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      return take(data, size);
    };
    httplib::Response response;
    httplib::Error error;
    httplib::Client client = NewClient();
    client.send(request, response, error);
  }
  std::string ExpectedText(const std::string& prompt, uint32_t max_tokens) {
    return Generate(Request(prompt, max_tokens)).text;
  }
  // The data of each event of a stream.
  static std::vector<std::string> Events(const std::string& body) {
    std::vector<std::string> events;
    std::istringstream lines(body);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("data: ")) events.push_back(line.substr(6));
    }
    return events;
  }
};

TEST_F(WebServiceTest, ACompletionIsTheAnswerThatGrpcGives) {
  AddPrefill();
  AddDecode();
  StartHttp();
  const auto answer = Post("/v1/completions", Completion("abc", 20), {{"x-request-id", "mine"}});
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(answer->get_header_value("x-request-id"), "mine");
  const Json body = Json::parse(answer->body);
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["choices"][0]["text"], ExpectedText("abc", 20));
  EXPECT_EQ(body["usage"]["completion_tokens"], 20);
  ExpectNothingLeft();
}

TEST_F(WebServiceTest, AStreamJoinsToTheWholeAnswerAndEndsWithDone) {
  AddPrefill();
  AddDecode();
  StartHttp();
  Json request = Completion("abc", 20);
  request["stream"] = true;
  const auto answer = Post("/v1/completions", request);
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(answer->get_header_value("Content-Type").substr(0, 17), "text/event-stream");
  std::vector<std::string> events = Events(answer->body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  std::string text;
  for (const std::string& event : events) {
    text += Json::parse(event)["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, ExpectedText("abc", 20));
  ExpectNothingLeft();
}

TEST_F(WebServiceTest, AListOfPromptsIsAnsweredInTheirOrder) {
  AddPrefill();
  AddDecode();
  StartHttp();
  Json request = Completion("", 10);
  request["prompt"] = {"abc", "de", "fghij"};
  const auto answer = Post("/v1/completions", request);
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  const Json body = Json::parse(answer->body);
  ASSERT_EQ(body["choices"].size(), 3u);
  size_t index = 0;
  for (const char* prompt : {"abc", "de", "fghij"}) {
    EXPECT_EQ(body["choices"][index]["index"], index);
    EXPECT_EQ(body["choices"][index]["text"], ExpectedText(prompt, 10));
    ++index;
  }
  EXPECT_EQ(body["usage"]["completion_tokens"], 30);
}

TEST_F(WebServiceTest, AListOfPromptsIsAdmittedWholeOrNotAtAll) {
  AddPrefill();
  AddDecode();
  options_.admission.requests = 2;
  StartHttp();
  Json request = Completion("", 10);
  request["prompt"] = {"abc", "de", "fghij"};
  const auto answer = Post("/v1/completions", request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 429) << answer->body;
  EXPECT_TRUE(answer->has_header("retry-after"));
  EXPECT_TRUE(answer->has_header("retry-after-ms"));
  EXPECT_EQ(answer->get_header_value("x-should-retry"), "true");
  EXPECT_EQ(router_->waiting_requests(), 0u) << "the two that there was room for";
  EXPECT_EQ(Post("/v1/completions", Completion("abc", 3))->status, 200);
}

TEST_F(WebServiceTest, OneBadPromptEndsTheOthersToo) {
  AddPrefill();
  AddDecode();
  workers_[1]->Behave({.between_tokens = absl::Milliseconds(1)});
  StartHttp();
  Json request = Completion("", 50000);
  request["prompt"] = {"abc", ""};
  const auto answer = Post("/v1/completions", request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400) << answer->body;
  EXPECT_EQ(Json::parse(answer->body)["error"]["param"], "prompt");
  ExpectNothingLeft();
}

TEST_F(WebServiceTest, AnErrorBeforeTheStreamIsAStatusAndNoStream) {
  StartHttp();
  Json request = Completion("abc", 10);
  request["stream"] = true;
  request["temperature"] = -1;
  auto answer = Post("/v1/completions", request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400) << answer->body;
  EXPECT_EQ(Json::parse(answer->body)["error"]["param"], "temperature");
  request["temperature"] = 1;
  request["max_tokens"] = kContext + 1;
  answer = Post("/v1/completions", request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400) << answer->body;
  EXPECT_EQ(Json::parse(answer->body)["error"]["code"], "context_length_exceeded");
  request["model"] = "another";
  answer = Post("/v1/completions", request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 404) << answer->body;
  EXPECT_EQ(Json::parse(answer->body)["error"]["code"], "model_not_found");
}

TEST_F(WebServiceTest, AStreamThatBreaksEndsWithAnErrorAndWithoutDone) {
  AddPrefill();
  MockWorker& decode = AddDecode();
  decode.Behave({.between_tokens = absl::Milliseconds(1)});
  options_.runner.machine.worker_timeout = absl::Milliseconds(50);
  StartHttp();
  Json request = Completion("abc", 50000);
  request["stream"] = true;
  std::string body;
  bool told = false;
  Stream(request, [&](const char* data, size_t length) {
    body.append(data, length);
    if (!told && Events(body).size() > 3) {
      told = true;
      router_->EndAll();
    }
    return true;
  });
  ASSERT_TRUE(told);
  const std::vector<std::string> events = Events(body);
  ASSERT_FALSE(events.empty());
  EXPECT_TRUE(Json::parse(events.back()).contains("error")) << events.back();
  ExpectNothingLeft();
}

TEST_F(WebServiceTest, AClientThatLeavesIsForgotten) {
  AddPrefill();
  MockWorker& decode = AddDecode();
  decode.Behave({.between_tokens = absl::Milliseconds(1)});
  StartHttp();
  Json request = Completion("abc", 50000);
  request["stream"] = true;
  Stream(request, [](const char*, size_t) { return false; });
  ExpectNothingLeft();
}

TEST_F(WebServiceTest, AChatWithoutATemplateOrAKeyIsRefusedByName) {
  StartHttp();
  const auto answer = Post("/v1/chat/completions", {{"messages", Json::array()}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400) << answer->body;
  EXPECT_EQ(Json::parse(answer->body)["error"]["param"], "messages");
}

TEST_F(WebServiceTest, HealthTellsWhetherARequestWouldFindItsWorkers) {
  StartHttp();
  EXPECT_EQ(NewClient().Get("/health")->status, 503);
  Stop();
  http_->Close();
  AddPrefill();
  AddDecode();
  StartHttp();
  EXPECT_EQ(NewClient().Get("/health")->status, 200);
}

TEST_F(WebServiceTest, PagesOfOthersMayNotCallARouterWithoutKeys) {
  StartHttp();
  const auto get = [&](const httplib::Headers& headers) {
    return NewClient().Get("/v1/models", headers)->status;
  };
  EXPECT_EQ(get({}), 200);
  EXPECT_EQ(get({{"Origin", "https://evil.example"}}), 403);
  EXPECT_EQ(get({{"Host", "evil.example"}}), 403);
  EXPECT_EQ(get({{"Authorization", "Bearer none"}}), 200) << "clients always send some key";
  EXPECT_EQ(get({{"Host", "evil.example"}, {"Authorization", "Bearer none"}}), 403);
  EXPECT_EQ(NewClient().Post("/v1/completions", "{}", "text/plain")->status, 415);
}

TEST_F(WebServiceTest, AKeyIsNeededWhereKeysAreSet) {
  const std::string path = testing::TempDir() + "web_service_test.toml";
  const std::string key = MakeApiKey();
  KeysFile file;
  file.keys.push_back({.hash = HashApiKey(key), .tenant = "acme"});
  file.tenants["acme"] = {};
  ASSERT_TRUE(WriteKeysFile(path, file).ok());
  const std::unique_ptr<ApiKeys> keys = *ApiKeys::Load(path, metrics_, absl::Minutes(1));
  options_.keys = keys.get();
  options_.needs_identity = true;
  AddPrefill();
  AddDecode();
  StartHttp();
  const Json request = Completion("abc", 5);
  auto answer = Post("/v1/completions", request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 401) << answer->body;
  EXPECT_EQ(answer->get_header_value("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(Json::parse(answer->body)["error"]["type"], "authentication_error");
  EXPECT_EQ(Post("/v1/completions", request, {{"Authorization", "Bearer x"}})->status, 401);
  EXPECT_EQ(Post("/v1/completions", request, {{"Authorization", "Bearer " + key}})->status, 200);
  EXPECT_EQ(Post("/v1/completions", request, {{"x-api-key", key}})->status, 200);
  EXPECT_EQ(NewClient().Get("/health")->status, 200) << "probes have no key";
  Stop();
  unlink(path.c_str());
}

TEST_F(WebServiceTest, EmbeddingsAreNotServedAndSaySo) {
  StartHttp();
  const auto answer = Post("/v1/embeddings", {{"input", "abc"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 501) << answer->body;
  EXPECT_EQ(Json::parse(answer->body)["error"]["type"], "not_supported_error");
}

TEST_F(WebServiceTest, TextBecomesTokensAndTextAgain) {
  StartHttp();
  const auto tokens = Post("/tokenize", {{"prompt", "cab"}});
  ASSERT_TRUE(tokens);
  ASSERT_EQ(tokens->status, 200) << tokens->body;
  EXPECT_EQ(Json::parse(tokens->body)["tokens"], Json({2, 0, 1}));
  const auto text = Post("/detokenize", {{"tokens", {2, 0, 1}}});
  ASSERT_TRUE(text);
  ASSERT_EQ(text->status, 200) << text->body;
  EXPECT_EQ(Json::parse(text->body)["prompt"], "cab");
}

}  // namespace
}  // namespace baton
