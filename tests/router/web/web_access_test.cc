// Who may call the HTTP API.
#include <gmock/gmock.h>
#include <unistd.h>

#include "router/tenants/api_key.h"
#include "router/web/web_service.h"
#include "tests/router/web/raw_requests.h"
#include "tests/router/web/web_fixture.h"

namespace baton {
namespace {

class WebAccessTest : public WebFixture {};

TEST_F(WebAccessTest, PagesOfOthersMayNotCallARouterWithoutKeys) {
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

TEST_F(WebAccessTest, WhatComesThroughAReverseProxyNeedsAKeyWhateverHostItNames) {
  StartHttp();
  const auto get = [&](const char* path, const httplib::Headers& headers) {
    return NewClient().Get(path, headers)->status;
  };
  for (const char* name : {"Forwarded", "X-Forwarded-For", "Via"}) {
    EXPECT_EQ(get("/v1/models", {{name, "for=203.0.113.7"}}), 401) << name;
    EXPECT_EQ(get("/v1/models", {{name, "x"}, {"Host", "baton.example"}}), 401) << name;
    EXPECT_EQ(get("/health", {{name, "x"}, {"Host", "baton.example"}}), 503)
        << "no worker is ready, which a probe is told without a key";
  }
  const auto refused = NewClient().Get("/v1/models", {{"X-Forwarded-For", "203.0.113.7"}});
  EXPECT_THAT(refused->body, testing::HasSubstr("came through a reverse proxy"));
  EXPECT_EQ(get("/v1/models", {}), 200);
}

TEST_F(WebAccessTest, ThroughAReverseProxyEverybodyIsServedWithInsecureAndWithoutKeys) {
  options_.insecure = true;
  StartHttp();
  EXPECT_EQ(NewClient().Get("/v1/models", {{"X-Forwarded-For", "203.0.113.7"}})->status, 200);
  EXPECT_EQ(NewClient().Get("/page/fleet", {{"X-Forwarded-For", "203.0.113.7"}})->status, 403)
      << "the page stays with this machine and operators";
}

TEST_F(WebAccessTest, OnATrustedNetworkItsNamesMayBeUsedAndThePageStaysWithThisMachine) {
  options_.insecure = true;
  options_.http_hosts = {.trusted_network = true, .names = {"llm.example.org"}};
  StartHttp();
  const auto get = [&](const char* path, const char* host) {
    return NewClient().Get(path, {{"Host", host}})->status;
  };
  for (const char* host : {"localhost:8080", "192.0.2.2:8080", "baton-router:8080", "desk.local",
                           "baton-router.ns.svc.cluster.local", "LLM.example.org:8080"}) {
    EXPECT_EQ(get("/v1/models", host), 200) << host;
  }
  EXPECT_EQ(get("/v1/models", "evil.example"), 403);
  EXPECT_EQ(get("/page/fleet", "localhost:8080"), 200);
  for (const char* host : {"192.0.2.2:8080", "desk.local", "llm.example.org", "evil.example"}) {
    EXPECT_EQ(get("/page/fleet", host), 403) << host;
  }
}

TEST_F(WebAccessTest, AKeyIsNeededWhereKeysAreSet) {
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
  answer = Post("/v1/completions", request, {{"Host", "api.example.com"}});
  EXPECT_EQ(answer->status, 401) << "by another name too";
  EXPECT_EQ(answer->get_header_value("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(Post("/v1/completions", request, {{"Authorization", "Bearer x"}})->status, 401);
  EXPECT_EQ(Post("/v1/completions", request, {{"Authorization", "Bearer " + key}})->status, 200);
  EXPECT_EQ(Post("/v1/completions", request, {{"x-api-key", key}})->status, 200);
  const httplib::Headers proxied = {
      {"x-api-key", key}, {"Host", "api.example.com"}, {"X-Forwarded-For", "203.0.113.7"}};
  EXPECT_EQ(Post("/v1/completions", request, proxied)->status, 200) << "a proxy may keep Host";
  const std::string bearer = "Bearer " + key;
  EXPECT_EQ(
      Post("/v1/completions", request, {{"Authorization", bearer}, {"x-api-key", key}})->status,
      200);
  EXPECT_EQ(Post("/v1/completions", request, {{"Authorization", ""}, {"x-api-key", key}})->status,
            200);
  EXPECT_EQ(
      Post("/v1/completions", request, {{"Authorization", bearer}, {"x-api-key", "no"}})->status,
      401);
  EXPECT_EQ(NewClient().Get("/health")->status, 200) << "probes have no key";
  Stop();
  unlink(path.c_str());
}

TEST_F(WebAccessTest, ATenantAtItsLimitIsToldSoBeforeItsBodyIsRead) {
  const std::string path = testing::TempDir() + "web_quota_test.toml";
  const std::string key = MakeApiKey();
  KeysFile file;
  file.keys.push_back({.hash = HashApiKey(key), .tenant = "acme"});
  file.tenants["acme"] = {.requests_per_second = 0.001};
  ASSERT_TRUE(WriteKeysFile(path, file).ok());
  const std::unique_ptr<ApiKeys> keys = *ApiKeys::Load(path, metrics_, absl::Minutes(1));
  options_.keys = keys.get();
  AddPrefill();
  AddDecode();
  StartHttp();
  const httplib::Headers headers = {{"x-api-key", key}};
  EXPECT_EQ(Post("/v1/completions", Json::object(), headers)->status, 400);
  EXPECT_EQ(Post("/v1/completions", Completion("abc", 5), headers)->status, 200)
      << "what is refused for its fields does not count";
  const auto refused = Post("/v1/completions", Json::object(), headers);
  EXPECT_EQ(refused->status, 429) << refused->body;
  EXPECT_TRUE(refused->has_header("retry-after"));
  // These never come whole.
  RawRequests halves(http_->address());
  double refusals = 1;
  for (const char* route : {"/v1/completions", "/tokenize", "/detokenize"}) {
    halves.Send(RawPost(route, key, "{", 1000));
    ++refusals;
    Eventually([&] { return Metric("baton_tenant_refusals_total") == refusals; });
  }
  Stop();
  unlink(path.c_str());
}

TEST_F(WebAccessTest, ChoicesAndPromptsOfAListAreStreamsOfTheirTenant) {
  const std::string path = testing::TempDir() + "web_streams_test.toml";
  const std::string key = MakeApiKey();
  KeysFile file;
  file.keys.push_back({.hash = HashApiKey(key), .tenant = "acme"});
  file.tenants["acme"] = {.streams = 3};
  ASSERT_TRUE(WriteKeysFile(path, file).ok());
  const std::unique_ptr<ApiKeys> keys = *ApiKeys::Load(path, metrics_, absl::Minutes(1));
  options_.keys = keys.get();
  AddPrefill();
  AddDecode();
  StartHttp();
  const httplib::Headers headers = {{"x-api-key", key}};
  Json request = Completion("abc", 5);
  const auto expect_refused = [&](const std::string& route, const char* param) {
    httplib::Result refused = Post(route, request, headers);
    Eventually([&] {  // the answer before has ended
      if (refused->status != 429) return true;
      refused = Post(route, request, headers);
      return false;
    });
    EXPECT_EQ(refused->status, 400) << refused->body;
    EXPECT_FALSE(refused->has_header("retry-after"));
    const Json error = Json::parse(refused->body)["error"];
    EXPECT_EQ(error["param"], param);
    EXPECT_EQ(error["code"], "tenant_streams");
    EXPECT_THAT(error["message"].get<std::string>(), testing::HasSubstr("may have 3"));
  };
  request["n"] = 3;
  EXPECT_EQ(Post("/v1/completions", request, headers)->status, 200);
  request["n"] = 4;
  expect_refused("/v1/completions", "n");
  request["n"] = 1;
  request["prompt"] = {"a", "b", "c"};
  Eventually([&] { return Post("/v1/completions", request, headers)->status == 200; });
  request["n"] = 2;
  expect_refused("/v1/completions", "prompt");
  request["n"] = 4;
  request.erase("prompt");
  request["messages"] = {{{"role", "user"}, {"content", "a"}}};
  expect_refused("/v1/chat/completions", "n");
  Stop();
  unlink(path.c_str());
}

TEST_F(WebAccessTest, TextsThatAreTokenisedCountAgainstTheTokensOfTheirTenant) {
  const std::string path = testing::TempDir() + "web_tokens_test.toml";
  KeysFile file;
  std::vector<std::string> shown;
  for (const char* tenant : {"a", "b", "c"}) {
    shown.push_back(MakeApiKey());
    file.keys.push_back({.hash = HashApiKey(shown.back()), .tenant = tenant});
    file.tenants[tenant] = {.tokens_per_minute = 10};
  }
  ASSERT_TRUE(WriteKeysFile(path, file).ok());
  const std::unique_ptr<ApiKeys> keys = *ApiKeys::Load(path, metrics_, absl::Minutes(1));
  options_.keys = keys.get();
  StartHttp();
  const Json text = {{"prompt", std::string(100, 'a')}};
  const Json chat = {{"model", "letters"},
                     {"messages", {{{"role", "user"}, {"content", std::string(100, 'a')}}}}};
  const std::vector<std::pair<std::string, Json>> calls = {
      {"/tokenize", text},
      {"/v1/messages/count_tokens", chat},
      {"/v1/responses/input_tokens", {{"input", std::string(100, 'a')}}}};
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& [route, body] = calls[i];
    EXPECT_EQ(Post(route, body, {{"x-api-key", shown[i]}})->status, 200) << route;
    EXPECT_EQ(Post(route, body, {{"x-api-key", shown[i]}})->status, 429) << route;
  }
  Stop();
  unlink(path.c_str());
}

TEST_F(WebAccessTest, OfMaxTokensThatAreCutATenantsTokensAreReservedForWhatIsLeft) {
  const std::string path = testing::TempDir() + "web_cut_test.toml";
  const std::string key = MakeApiKey();
  KeysFile file;
  file.keys.push_back({.hash = HashApiKey(key), .tenant = "acme"});
  file.tenants["acme"] = {.tokens_per_minute = 80};
  ASSERT_TRUE(WriteKeysFile(path, file).ok());
  const std::unique_ptr<ApiKeys> keys = *ApiKeys::Load(path, metrics_, absl::Minutes(1));
  options_.keys = keys.get();
  MockWorker::Options small;
  small.max_model_len = 64;
  AddWorker(internal::v1::WORKER_ROLE_PREFILL, small)
      .Behave({.before_first_token = absl::Hours(1)});
  AddWorker(internal::v1::WORKER_ROLE_DECODE, small);
  StartHttp();
  const Json message = {{"role", "user"}, {"content", "abc"}};
  const Json body = {{"messages", Json::array({message})}, {"max_tokens", 32000}};
  RawRequests running(http_->address());
  running.Send(RawPost("/v1/messages", key, body.dump()));
  Eventually([&] { return router_->RunningRequests() == 1; });
  // The context's 64 tokens are reserved of 80, and not all that a minute has.
  EXPECT_EQ(Post("/tokenize", {{"prompt", "a"}}, {{"x-api-key", key}})->status, 200);
  http_->Close();
  Stop();
  unlink(path.c_str());
}

TEST_F(WebAccessTest, WhoseCertificateCountsNoMoreIsAskedForAKey) {
  StartHttp();
  const HttpResponse answer =
      router_->http_handler().error_answer({.method = "GET", .path = "/v1/models"}, 401, "revoked");
  EXPECT_EQ(answer.status, 401);
  EXPECT_THAT(answer.headers, testing::Contains(HttpHeader{"WWW-Authenticate", "Bearer"}));
}

TEST_F(WebAccessTest, ACertificateOpensWhatItsRoleMayAskForByGrpc) {
  StartHttp();
  const HttpServer::Handler handler = router_->http_handler();
  // The status of a refusal; 0: none.
  const auto refused = [&](Role role, const char* method, const char* path) {
    HttpRequest head{.method = method, .path = path};
    head.headers = {{"content-type", "application/json"}};
    head.client.certificate = Peer{.role = role, .trust_domain = "", .name = "x"};
    const std::optional<HttpResponse> answer = handler.check(head);
    return answer.has_value() ? answer->status : 0;
  };
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                           "/v1/messages", "/tokenize", "/detokenize"}) {
    EXPECT_EQ(refused(Role::kClient, "POST", path), 0) << path;
    EXPECT_EQ(refused(Role::kOperator, "POST", path), 403) << path;
  }
  EXPECT_EQ(refused(Role::kOperator, "GET", "/v1/models"), 0);
  EXPECT_EQ(refused(Role::kOperator, "GET", "/health"), 0);
  EXPECT_EQ(refused(Role::kPrefill, "GET", "/v1/models"), 403);
}

TEST_F(WebAccessTest, AClientBehindAFrontIsWhoTheFrontSays) {
  options_.needs_identity = true;
  StartHttp();
  const HttpServer::Handler handler = router_->http_handler();
  HttpRequest head{.method = "GET", .path = "/v1/models"};
  head.headers = {{"baton-client-certificate", "no certificate"}};
  const auto status = [&] {
    const std::optional<HttpResponse> answer = handler.check(head);
    return answer.has_value() ? answer->status : 0;
  };
  head.client.certificate = Peer{.role = Role::kClient, .trust_domain = "", .name = "x"};
  EXPECT_EQ(status(), 0) << "a client's own header is nobody's";
  head.client.certificate->role = Role::kFront;
  EXPECT_EQ(status(), 401);
  head.headers.clear();
  EXPECT_EQ(status(), 401) << "the front itself is nobody";
  options_.keys = nullptr;
}

}  // namespace
}  // namespace baton
