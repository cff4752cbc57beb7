// The HTTP API of a router with mock workers, over real sockets.
#include "router/web/web_service.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

#include "common/rpc/limits.h"
#include "router/tenants/api_key.h"
#include "tests/router/web/raw_requests.h"
#include "tests/router/web/web_fixture.h"

namespace baton {
namespace {

class WebServiceTest : public WebFixture {};

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

TEST_F(WebServiceTest, BodiesThatWaitToBeReadAreBoundedTogether) {
  options_.admission.bytes = 1000;
  StartHttp();
  for (const char* path : {"/v1/completions", "/tokenize"}) {
    const auto go = HoldTokenizers();
    absl::Mutex mutex;
    std::vector<int> statuses;
    std::vector<std::thread> clients;
    for (int i = 0; i < 2; ++i) {
      clients.emplace_back([&] {
        const auto answer = Post(path, {{"odd", std::string(600, 'a')}});
        absl::MutexLock lock(&mutex);
        statuses.push_back(answer ? answer->status : 0);
      });
    }
    Eventually([&] {
      absl::MutexLock lock(&mutex);
      return !statuses.empty();
    });
    go->Notify();
    for (std::thread& client : clients) client.join();
    EXPECT_THAT(statuses, testing::ElementsAre(429, 400)) << path;
  }
}

TEST_F(WebServiceTest, BodiesThatDoNotBecomeWholeAreBoundedWithThoseThatWait) {
  options_.admission.bytes = 100000;
  StartHttp();
  const auto waiting = [&] { return Metric("baton_router_queue_bytes"); };
  {
    RawRequests halves(http_->address());
    const std::string half = RawPost("/v1/completions", "", std::string(30000, 'a'), 40000);
    for (int i = 0; i < 3; ++i) halves.Send(half);
    Eventually([&] { return waiting() >= 90000; });
    const auto refused = Post("/tokenize", {{"prompt", std::string(20000, 'a')}});
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 429) << refused->body;
    EXPECT_TRUE(refused->has_header("retry-after"));
    EXPECT_EQ(refused->get_header_value("Connection"), "close");
    EXPECT_LE(waiting(), 100000);
    EXPECT_EQ(NewClient().Get("/v1/models")->status, 200) << "what has no body";
  }
  Eventually([&] { return waiting() == 0; });
  EXPECT_EQ(Post("/tokenize", {{"prompt", std::string(20000, 'a')}})->status, 200);
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
  EXPECT_EQ(Metric("baton_disconnects_total"), 0) << "the client is still there";
}

TEST_F(WebServiceTest, TheLogProbabilitiesOfAllPromptsInAllChoicesAreBounded) {
  // The first prompt, which is not refused, has no answer before the second one is.
  AddPrefill().Behave({.before_first_token = absl::Hours(1)});
  AddDecode();
  StartHttp();
  Json request = Completion("", 1);
  request["echo"] = true;
  request["logprobs"] = 20;
  request["n"] = kMaxChoices;
  // Each prompt alone has few enough.
  const std::string prompt(kMaxAnswerPromptLogprobs / 21 / kMaxChoices / 2 + 1, 'a');
  request["prompt"] = {prompt, prompt};
  for (const bool stream : {false, true}) {
    request["stream"] = stream;
    const auto answer = Post("/v1/completions", request);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 400) << answer->body.substr(0, 500);
    EXPECT_EQ(Json::parse(answer->body)["error"]["param"], "logprobs");
    ExpectNothingLeft();
  }
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
  EXPECT_EQ(Metric("baton_disconnects_total"), 1);
}

TEST_F(WebServiceTest, AClientThatLeavesBeforeItsFirstTokenIsForgotten) {
  AddPrefill();
  AddDecode();
  StartHttp();
  const MockBehaviour behaviours[] = {{.before_accept = absl::Hours(1)},
                                      {.before_first_token = absl::Hours(1)}};
  for (const MockBehaviour& behaviour : behaviours) {
    for (const auto& worker : workers_) worker->Behave(behaviour);
    for (const bool stream : {false, true}) {
      httplib::Client client = NewClient();
      std::thread waits([&] {
        Json request = Completion("abc", 10);
        request["stream"] = stream;
        client.Post("/v1/completions", request.dump(), "application/json");
      });
      Eventually([&] { return workers_[1]->active_calls() > 0; });
      client.stop();
      waits.join();
      ExpectNothingLeft();
    }
  }
}

TEST_F(WebServiceTest, AStreamBeginsAndIsKeptAliveWhileItsPromptIsComputed) {
  AddPrefill().Behave({.before_first_token = absl::Hours(1)});
  AddDecode();
  http_options_.ping_interval = absl::Milliseconds(5);
  StartHttp();
  Json request = Completion("abc", 10);
  request["stream"] = true;
  std::string body;
  Stream(request, [&](const char* data, size_t length) {
    body.append(data, length);
    return body.size() < 8;
  });
  EXPECT_EQ(body.substr(0, 8), ": \n\n: \n\n");
  ExpectNothingLeft();
}

TEST_F(WebServiceTest, WhateverIsWrongIsToldInJson) {
  http_options_.max_body_bytes = 100;
  StartHttp();
  const auto expect = [](const httplib::Result& answer, int status) {
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, status) << answer->body;
    EXPECT_EQ(answer->get_header_value("Content-Type"), "application/json");
    EXPECT_FALSE(Json::parse(answer->body)["error"]["message"].get<std::string>().empty());
  };
  expect(NewClient().Get("/nowhere"), 404);
  const auto wrong_method = NewClient().Get("/v1/completions");
  expect(wrong_method, 405);
  EXPECT_EQ(wrong_method->get_header_value("Allow"), "POST");
  expect(NewClient().Post("/v1/completions", "{}", "text/plain"), 415);
  for (const char* path : {"/v1/completions", "/v1/messages", "/tokenize"}) {
    const auto coded = Post(path, Json::object(), {{"Content-Encoding", "gzip"}});
    expect(coded, 415);
    EXPECT_EQ(coded->get_header_value("Accept-Encoding"), "identity");
  }
  expect(Post("/v1/completions", {{"prompt", std::string(200, 'a')}}), 413);
  expect(Post("/v1/messages", Json::array()), 400);
}

TEST_F(WebServiceTest, AnswersOfTheServerItselfHaveTheRequestsIdToo) {
  http_options_.max_body_bytes = 100;
  http_options_.max_header_bytes = 1000;
  StartHttp();
  const auto long_body =
      Post("/v1/messages", {{"prompt", std::string(200, 'a')}}, {{"x-request-id", "mine"}});
  ASSERT_TRUE(long_body);
  EXPECT_EQ(long_body->status, 413);
  EXPECT_EQ(long_body->get_header_value("x-request-id"), "mine");
  EXPECT_EQ(Json::parse(long_body->body)["request_id"], "mine");
  const auto long_headers = NewClient().Get("/v1/models", {{"x", std::string(2000, 'a')}});
  ASSERT_TRUE(long_headers);
  EXPECT_EQ(long_headers->status, 431);
  EXPECT_FALSE(long_headers->get_header_value("x-request-id").empty());
}

// The id of the answer, in a stream that of its first event which has one.
std::string AnswerIdOf(const std::string& body) {
  const size_t at = body.find("\"id\":\"");
  if (at == std::string::npos) return "";
  const size_t begin = at + std::string("\"id\":\"").size();
  return body.substr(begin, body.find('"', begin) - begin);
}

TEST_F(WebServiceTest, AnswersThatShareARequestIdOrATraceHaveIdsOfTheirOwn) {
  AddPrefill();
  AddDecode();
  StartHttp();
  constexpr char kSharedTrace[] = "0af7651916cd43dd8448eb211c80319c";
  const Json hi = {{{"role", "user"}, {"content", "hi"}}};
  const std::vector<std::pair<std::string, Json>> asked = {
      {"/v1/completions", {{"prompt", "abc"}, {"max_tokens", 2}}},
      {"/v1/chat/completions", {{"messages", hi}, {"max_tokens", 2}}},
      {"/v1/responses", {{"input", "hi"}, {"max_output_tokens", 2}}},
      {"/v1/messages", {{"messages", hi}, {"max_tokens", 2}}}};
  const std::vector<std::pair<std::string, httplib::Headers>> shared = {
      {"mine", {{"x-request-id", "mine"}}},
      {kSharedTrace,
       {{"traceparent", std::string("00-") + kSharedTrace + "-b7ad6b7169203331-01"}}}};
  for (const auto& [path, body] : asked) {
    for (const auto& [id, headers] : shared) {
      std::set<std::string> ids;
      for (const bool stream : {false, false, true, true}) {
        Json request = body;
        request["stream"] = stream;
        request["temperature"] = 0;
        const auto answer = Post(path, request, headers);
        ASSERT_TRUE(answer);
        ASSERT_EQ(answer->status, 200) << answer->body;
        EXPECT_EQ(answer->get_header_value("x-request-id"), id) << path;
        const std::string own = AnswerIdOf(answer->body);
        EXPECT_EQ(own.find(id), std::string::npos) << own;
        EXPECT_TRUE(ids.insert(own).second) << path << " has " << own << " twice";
      }
    }
  }
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
  router_->RefuseNew();
  const auto draining = NewClient().Get("/health");
  ASSERT_TRUE(draining);
  EXPECT_EQ(draining->status, 503);
  EXPECT_NE(draining->body.find("shutting down"), std::string::npos) << draining->body;
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
