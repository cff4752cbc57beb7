// The page's part of the HTTP API, of a router with mock workers over real sockets, and of callers
// from elsewhere without them.
#include "router/web/page_service.h"

#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/base/address.h"
#include "router/tenants/api_key.h"
#include "tests/router/web/web_fixture.h"

namespace baton {
namespace {

constexpr PageFile kFiles[] = {
    {.path = "/", .content_type = "text/html; charset=utf-8", .body = "<p>", .etag = "\"1\""},
    {.path = "/page/app.js", .content_type = "text/javascript", .body = "a", .etag = "\"2\""}};

// A keys file with one key of an operator and one of another tenant.
class TwoKeys {
 public:
  explicit TwoKeys(Metrics& metrics) : path_(testing::TempDir() + "page_service_test.toml") {
    KeysFile file;
    file.tenants["acme"] = {};
    file.tenants["ops"] = {.operates = true};
    file.keys = {{.hash = HashApiKey(tenant), .tenant = "acme"},
                 {.hash = HashApiKey(operates), .tenant = "ops"}};
    EXPECT_TRUE(WriteKeysFile(path_, file).ok());
    keys = *ApiKeys::Load(path_, metrics, absl::Minutes(1));
  }
  ~TwoKeys() { unlink(path_.c_str()); }

  const std::string tenant = MakeApiKey(), operates = MakeApiKey();
  std::unique_ptr<ApiKeys> keys;

 private:
  const std::string path_;
};

std::string Basic(const std::string& key) {
  return "Basic " + absl::Base64Escape("anybody:" + key);
}

class PageServiceTest : public WebFixture {
 protected:
  PageServiceTest() { options_.page_files = kFiles; }

  Json Get(const std::string& path) {
    const auto answer = NewClient().Get(path);
    EXPECT_TRUE(answer);
    EXPECT_EQ(answer->status, 200) << path << " " << answer->body;
    EXPECT_EQ(answer->get_header_value("Cache-Control"), "no-store");
    return Json::parse(answer->body);
  }
};

TEST_F(PageServiceTest, AFileComesWithThePolicyAndOnceOnly) {
  StartHttp();
  const auto whole = NewClient().Get("/");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->status, 200);
  EXPECT_EQ(whole->body, "<p>");
  EXPECT_EQ(whole->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(whole->get_header_value("Content-Security-Policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
            "'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  EXPECT_EQ(whole->get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(whole->get_header_value("Referrer-Policy"), "no-referrer");
  EXPECT_EQ(whole->get_header_value("Cache-Control"), "no-cache");
  EXPECT_EQ(whole->get_header_value("ETag"), "\"1\"");
  for (const char* held : {"\"1\"", "\"0\", W/\"1\"", "*"}) {
    const auto again = NewClient().Get("/", {{"If-None-Match", held}});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->status, 304) << held;
    EXPECT_EQ(again->body, "");
    EXPECT_EQ(again->get_header_value("ETag"), "\"1\"");
  }
  EXPECT_EQ(NewClient().Get("/page/app.js", {{"If-None-Match", "\"1\""}})->status, 200);
  EXPECT_EQ(NewClient().Get("/page/other.js")->status, 404);
  EXPECT_EQ(NewClient().Post("/page/fleet", "{}", "application/json")->status, 405);
}

TEST_F(PageServiceTest, TheFleetShowsItsWorkersAndTheEventsOfOneThatIsGone) {
  AddPrefill();
  AddDecode();
  AddDecode();
  StartHttp();
  const auto of = [&](const std::string& name) -> Json {
    const Json fleet = Get("/page/fleet");
    for (const Json& worker : fleet["workers"]) {
      if (worker["name"] == name) return worker;
    }
    return {};
  };
  const auto is = [&](const std::string& name, const char* state) {
    const Json worker = of(name);
    return worker.is_object() && worker["state"] == state;
  };
  Eventually([&] { return is("p0", "ready") && is("d2", "ready"); });
  const Json ready = of("p0");
  EXPECT_EQ(ready["role"], "prefill");
  EXPECT_EQ(ready["blocks"]["total"], ready["blocks"]["used"].get<int>() +
                                          ready["blocks"]["cached"].get<int>() +
                                          ready["blocks"]["free"].get<int>());
  workers_[2]->Kill();
  Eventually([&] { return is("d2", "unreachable"); });
  Eventually([&] {
    return of("d2")["problem"].get<std::string>().starts_with(
        "it does not answer: connection refused");
  });
  const Json events = Get("/page/fleet")["events"];
  EXPECT_EQ(events.back()["kind"], "worker_down");
  EXPECT_EQ(events.back()["worker"], "d2");
  EXPECT_EQ(Get("/page/fleet")["routers"][0]["state"], "serving");
  EXPECT_EQ(Get("/page/kv")["workers"].size(), 3u);
}

TEST_F(PageServiceTest, TheHistoryOfTheFleetIsThereBeforeAnybodyHasLooked) {
  AddPrefill();
  AddDecode();
  StartHttp();
  Json history;
  Eventually([&] {
    history = Get("/page/history");
    return !history["at"].empty();
  });
  EXPECT_LE(history["at"].back().get<double>(), history["now"].get<double>());
  for (const char* list : {"tokens_per_second", "running", "ttft_ms"}) {
    EXPECT_EQ(history[list].size(), history["at"].size()) << list;
  }
}

TEST_F(PageServiceTest, HealthTellsWhoMayLookWhyNoWorkerIsReady) {
  AddPrefill();
  AddDecode();
  StartHttp();
  for (const auto& worker : workers_) worker->Kill();
  const auto message = [&](const httplib::Headers& headers) {
    const auto answer = NewClient().Get("/health", headers);
    if (!answer || answer->status != 503) return std::string();
    return Json::parse(answer->body)["error"]["message"].get<std::string>();
  };
  Eventually([&] {
    const std::string told = message({});
    return told.starts_with("no worker is ready: prefill worker p0 is unreachable: ") &&
           told.find("; decode worker d1 is unreachable: it does not answer: connection refused") !=
               std::string::npos;
  });
  EXPECT_EQ(message({{"X-Forwarded-For", "192.0.2.1"}}), "no worker is ready");
}

TEST_F(PageServiceTest, TheFleetTellsHowManyWorkersTheLoadNeedsOnceItKnows) {
  options_.advice.window = absl::Seconds(3);
  AddPrefill().Behave({.per_prompt_token = absl::Milliseconds(1)});
  AddDecode();
  StartHttp();
  const auto advice = [&](const char* role) -> Json { return Get("/page/fleet")["advice"][role]; };
  EXPECT_EQ(metrics_.Scrape().find("baton_router_advised_workers"), std::string::npos);
  Eventually([&] {
    EXPECT_EQ(Post("/v1/completions", Completion(std::string(200, 'a'), 2))->status, 200);
    return advice("prefill").contains("advised");
  });
  const double needed = advice("prefill")["needed"];
  EXPECT_GT(needed, 0.6) << "the worker is busy nearly all of the time";
  EXPECT_LT(needed, 1.4);
  EXPECT_EQ(advice("prefill")["ready"], 1);
  EXPECT_FALSE(advice("decode").contains("advised")) << "two tokens at a time tell nothing";
  EXPECT_EQ(advice("decode")["why"].get<std::string>().find("not known yet"), 0u);
  const std::string metrics = metrics_.Scrape();
  for (const char* name : {"baton_router_needed_workers", "baton_router_advised_workers"}) {
    EXPECT_NE(metrics.find(absl::StrCat(name, "{worker_role=\"prefill\"")), std::string::npos);
    EXPECT_EQ(metrics.find(absl::StrCat(name, "{worker_role=\"decode\"")), std::string::npos);
  }
}

TEST_F(PageServiceTest, ARequestIsFoundByItsIdWithoutAWordOfIt) {
  AddPrefill();
  AddDecode();
  StartHttp();
  ASSERT_EQ(Post("/v1/completions", Completion("secret", 20), {{"x-request-id", "mine/1"}})->status,
            200);
  const Json one = Get("/page/requests/mine/1");
  EXPECT_EQ(one["state"], "done");
  EXPECT_EQ(one["prompt_tokens"], 6);
  EXPECT_EQ(one["output_tokens"], 20);
  EXPECT_EQ(one["finish"], "length");
  EXPECT_EQ(one["attempts"], 1);
  EXPECT_EQ(one["prefill_worker"], "p0");
  EXPECT_EQ(one["decode_worker"], "d1");
  EXPECT_EQ(one["tries"].size(), 1u);
  EXPECT_EQ(one["timings"]["total_ms"], one["total_ms"]);
  const Json all = Get("/page/requests");
  ASSERT_EQ(all["requests"].size(), 1u);
  EXPECT_EQ(all["requests"][0]["id"], "mine/1");
  EXPECT_EQ((one.dump() + all.dump()).find("secret"), std::string::npos);
  EXPECT_EQ(NewClient().Get("/page/requests/other")->status, 404);
}

TEST_F(PageServiceTest, RefusalsAreCountedByReasonAndTold) {
  options_.admission.requests = 1;
  AddPrefill();
  AddDecode();
  StartHttp();
  Json request = Completion("", 10);
  request["prompt"] = {"abc", "de"};
  ASSERT_EQ(Post("/v1/completions", request)->status, 429);
  Eventually([&] {
    const Json fleet = Get("/page/fleet");
    for (const Json& event : fleet["events"]) {
      if (event["kind"] == "refused") return true;
    }
    return false;
  });
  EXPECT_EQ(Get("/page/fleet")["routers"][0]["refused"]["queue_full"], 1);
}

TEST_F(PageServiceTest, ThisMachineMayLookByIpv6Too) {
  if (!CheckListenable("--http-listen", "[::1]:0").ok()) GTEST_SKIP() << "there is no IPv6 here";
  StartHttp("[::1]:0");
  Get("/page/fleet");
}

TEST_F(PageServiceTest, PagesOfOthersMayNotReadIt) {
  http_options_.cors_origins = {"https://friend.example"};
  options_.http_cors_origins = http_options_.cors_origins;
  StartHttp();
  const auto get = [&](const httplib::Headers& headers) {
    return NewClient().Get("/page/fleet", headers)->status;
  };
  EXPECT_EQ(get({}), 200);
  EXPECT_EQ(get({{"Origin", "http://" + http_->address()}}), 200);
  EXPECT_EQ(get({{"Origin", "https://evil.example"}}), 403);
  EXPECT_EQ(get({{"Origin", "https://friend.example"}}), 403) << "it may use the API alone";
  EXPECT_EQ(get({{"Host", "evil.example"}}), 403);
  EXPECT_EQ(get({{"X-Forwarded-For", "203.0.113.7"}}), 403) << "a proxy lets others in";
}

TEST_F(PageServiceTest, ATenantsKeyMakesNoForeignPageOneOfThisMachine) {
  const TwoKeys keys(metrics_);
  options_.keys = keys.keys.get();
  options_.needs_identity = true;
  http_options_.cors_origins = {"https://friend.example", "*"};
  options_.http_cors_origins = http_options_.cors_origins;
  StartHttp();
  const std::string own = "http://" + http_->address();
  for (const char* path : {"/page/fleet", "/page/requests", "/page/kv", "/"}) {
    for (const auto& [name, key] :
         {std::pair("Authorization", "Bearer " + keys.tenant),
          std::pair("Authorization", Basic(keys.tenant)), std::pair("x-api-key", keys.tenant)}) {
      const auto get = [&, name = name, key = key](httplib::Headers headers) {
        headers.emplace(name, key);
        const auto answer = NewClient().Get(path, headers);
        EXPECT_FALSE(answer->has_header("Access-Control-Allow-Origin")) << path;
        return answer->status;
      };
      EXPECT_EQ(get({}), 200) << path;
      EXPECT_EQ(get({{"Origin", own}}), 200) << path;
      EXPECT_EQ(get({{"Host", "evil.example:8080"}}), 403) << path << ": a name that was rebound";
      EXPECT_EQ(get({{"Host", "baton.example"}}), 403) << path << ": a proxy that keeps Host";
      EXPECT_EQ(get({{"Origin", "https://evil.example"}}), 403) << path;
      EXPECT_EQ(get({{"Origin", "https://friend.example"}}), 403) << path;
    }
  }
  const auto by_operator = [&](const httplib::Headers& headers) {
    httplib::Headers all = headers;
    all.emplace("Authorization", "Bearer " + keys.operates);
    return NewClient().Get("/page/fleet", all)->status;
  };
  EXPECT_EQ(by_operator({{"Host", "baton.example"}}), 200) << "a proxy may let operators in";
  EXPECT_EQ(by_operator({{"X-Forwarded-For", "203.0.113.7"}}), 200);
  const auto models = NewClient().Get("/v1/models", {{"Origin", "https://friend.example"},
                                                     {"Authorization", "Bearer " + keys.tenant}});
  EXPECT_EQ(models->status, 200);
  EXPECT_EQ(models->get_header_value("Access-Control-Allow-Origin"), "https://friend.example");
  Stop();
}

TEST_F(PageServiceTest, APasswordIsAKeyForTheRoutersOwnPagesAlone) {
  const TwoKeys keys(metrics_);
  options_.keys = keys.keys.get();
  options_.needs_identity = true;
  AddPrefill();
  AddDecode();
  StartHttp();
  const auto post = [&](httplib::Headers headers) {
    headers.emplace("Authorization", Basic(keys.tenant));
    return Post("/v1/completions", Completion("abc", 5), headers)->status;
  };
  EXPECT_EQ(post({}), 200);
  EXPECT_EQ(post({{"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://" + http_->address()}}),
            200);
  EXPECT_EQ(post({{"Sec-Fetch-Site", "cross-site"}}), 403);
  EXPECT_EQ(post({{"Sec-Fetch-Site", "same-site"}}), 403);
  EXPECT_EQ(post({{"Origin", "https://evil.example"}}), 403);
  EXPECT_EQ(
      NewClient()
          .Post("/v1/completions", {{"Authorization", Basic(keys.tenant)}}, "{}", "text/plain")
          ->status,
      415);
  EXPECT_EQ(Post("/v1/completions", Completion("abc", 5), {{"Authorization", Basic("x")}})->status,
            401);
  const auto wrong = NewClient().Get("/page/fleet", {{"Authorization", Basic("x")}});
  EXPECT_EQ(wrong->status, 401);
  EXPECT_EQ(wrong->get_header_value("WWW-Authenticate").substr(0, 5), "Basic");
  Stop();
}

// A caller from another machine, by TLS or in plain text with --insecure.
class PageAccessTest : public testing::Test {
 protected:
  // The status with which it is refused; 200: it may look.
  int Check(const std::vector<HttpHeader>& headers, const ApiKeys* keys,
            std::optional<Role> certificate = std::nullopt, bool encrypted = true,
            const std::string& path = "/") {
    Door door(keys, {.needs_identity = true, .insecure = !encrypted}, metrics_);
    const PageService page({.files = kFiles,
                            .door = door,
                            .board = board_,
                            .events = events_,
                            .history = history_,
                            .fleet_history = fleet_history_,
                            .router = nullptr});
    HttpRequest head{.method = "GET", .path = path, .headers = headers};
    head.client = {.address = "ipv4:10.1.2.3:4567", .encrypted = encrypted};
    if (certificate.has_value()) head.client.certificate = {.role = *certificate, .name = "x"};
    const std::optional<HttpResponse> refusal = page.Check(head, "id");
    return refusal.has_value() ? refusal->status : 200;
  }

  Metrics metrics_{"router"};
  FleetBoard board_;
  EventLog events_;
  FleetHistory fleet_history_;
  RequestHistory history_{events_, fleet_history_};
};

TEST_F(PageAccessTest, FromElsewhereAnOperatorsKeyOpensThePageAndNobodyElses) {
  const TwoKeys keys(metrics_);
  const auto shows = [&](const std::string& value) {
    return Check({{"authorization", value}}, keys.keys.get());
  };
  EXPECT_EQ(shows(Basic(keys.operates)), 200);
  EXPECT_EQ(shows("Bearer " + keys.operates), 200);
  EXPECT_EQ(shows(Basic(keys.tenant)), 403);
  EXPECT_EQ(shows("Bearer " + keys.tenant), 403);
  EXPECT_EQ(shows(Basic("wrong")), 401);
  EXPECT_EQ(shows("Basic ???"), 401);
  EXPECT_EQ(Check({}, keys.keys.get()), 401);
  EXPECT_EQ(Check({}, nullptr), 403) << "no key would help";
  EXPECT_EQ(Check({{"authorization", Basic(keys.operates)}, {"sec-fetch-site", "cross-site"}},
                  keys.keys.get()),
            403);
}

TEST_F(PageAccessTest, TheMetricsAreOpenToThoseWhoMaySeeThePage) {
  const TwoKeys keys(metrics_);
  const auto status = [&](const std::string& authorization, bool encrypted) {
    return Check({{"authorization", authorization}}, keys.keys.get(), std::nullopt, encrypted,
                 "/metrics");
  };
  EXPECT_EQ(status("Bearer " + keys.operates, true), 200);
  EXPECT_EQ(status(Basic(keys.operates), true), 200) << "as Prometheus' basic_auth sends it";
  EXPECT_EQ(status("Bearer " + keys.operates, false), 401) << "others may have read it";
  EXPECT_EQ(status("Bearer " + keys.tenant, true), 403);
  EXPECT_EQ(status("Bearer wrong", true), 401);
  EXPECT_EQ(Check({}, keys.keys.get(), std::nullopt, true, "/metrics"), 401);
  EXPECT_EQ(Check({}, nullptr, Role::kOperator, true, "/metrics"), 200);
  EXPECT_EQ(Check({}, nullptr, Role::kClient, true, "/metrics"), 403);
}

TEST_F(PageAccessTest, FromElsewhereNoKeyOpensItInPlainText) {
  const TwoKeys keys(metrics_);
  const auto shows = [&](const std::string& value) {
    return Check({{"authorization", value}}, keys.keys.get(), std::nullopt, /*encrypted=*/false);
  };
  EXPECT_EQ(shows("Bearer " + keys.operates), 401);
  EXPECT_EQ(shows(Basic(keys.operates)), 401);
  EXPECT_EQ(shows("Bearer " + keys.tenant), 403);
  EXPECT_EQ(shows("Bearer wrong"), 401);
}

TEST_F(PageAccessTest, AnOperatorsCertificateOpensItAndAClientsDoesNot) {
  EXPECT_EQ(Check({}, nullptr, Role::kOperator), 200);
  EXPECT_EQ(Check({}, nullptr, Role::kClient), 403);
  EXPECT_EQ(Check({{"origin", "https://evil.example"}}, nullptr, Role::kOperator), 403);
}

}  // namespace
}  // namespace baton
