// The lines of real requests, over HTTP and gRPC, to a router with mock workers.
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "router/access_log/access_log.h"
#include "router/tenants/api_key.h"
#include "tests/router/web/raw_requests.h"
#include "tests/router/web/web_fixture.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

constexpr char kGenerate[] = "/baton.v1.GenerationService/Generate";
constexpr char kPrompt[] = "zanzibar";  // stands in all prompts, and must stand in no line

class LoggedRequestsTest : public WebFixture {
 protected:
  ~LoggedRequestsTest() override {
    if (http_ != nullptr) http_->Close();
    Stop();
    http_.reset();
    log_.reset();
  }
  void StartLogged() {
    auto log = AccessLog::Start({.target = path_, .format = AccessFormat::kJson}, metrics_);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    options_.access_log = log_.get();
    StartHttp();
  }
  // Has the router know the key of the tenant acme, and ask for one.
  void NeedKeys(const Tenant& limits = {}) {
    KeysFile file;
    file.keys.push_back({.hash = HashApiKey(key_), .tenant = "acme"});
    file.tenants["acme"] = limits;
    ASSERT_TRUE(WriteKeysFile(keys_path_, file).ok());
    keys_ = *ApiKeys::Load(keys_path_, metrics_, absl::Minutes(1));
    options_.keys = keys_.get();
    options_.needs_identity = true;
  }
  httplib::Headers WithId(const std::string& id) const {
    return {{"x-request-id", id}, {"x-api-key", key_}};
  }
  // The line of the request by that id, which comes soon.
  Json Line(const std::string& id) {
    std::optional<Json> found;
    Eventually([&] {
      std::ifstream file(path_);
      for (std::string line; std::getline(file, line);) {
        const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (object.is_object() && object["id"] == id) found = object;
      }
      return found.has_value();
    });
    return found.value_or(Json::object());
  }
  // All lines, at the end.
  std::vector<Json> AllLines() {
    http_->Close();
    Stop();
    EXPECT_TRUE(log_->Close(absl::Seconds(30)));
    std::vector<Json> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      EXPECT_EQ(line.find(kPrompt), std::string::npos) << line;
      lines.push_back(Json::parse(line));
    }
    return lines;
  }

  const TemporaryFolder folder_{"logged_requests"};
  const std::string path_ = folder_.path() + "/access.log";
  const std::string keys_path_ = folder_.path() + "/keys.toml";
  const std::string key_ = MakeApiKey();
  std::unique_ptr<ApiKeys> keys_;
  std::unique_ptr<AccessLog> log_;
};

TEST_F(LoggedRequestsTest, AnAnswerHasItsCallerItsTokensAndItsTimesByHttpAndGrpc) {
  AddPrefill();
  AddDecode();
  NeedKeys();
  StartLogged();
  Json request = Completion(kPrompt, 5);
  EXPECT_EQ(Post("/v1/completions", request, WithId("whole"))->status, 200);
  request["stream"] = true;
  EXPECT_EQ(Post("/v1/completions", request, WithId("stream"))->status, 200);
  request["stream"] = false;
  request["prompt"] = {kPrompt, kPrompt};
  EXPECT_EQ(Post("/v1/completions", request, WithId("two"))->status, 200);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + key_);
  v1::GenerateRequest by_grpc = Request(kPrompt, 5);
  by_grpc.set_request_id("grpc");
  EXPECT_TRUE(Generate(by_grpc, &context).status.ok());

  for (const char* id : {"whole", "stream", "two", "grpc"}) {
    const Json line = Line(id);
    const int prompts = line["id"] == "two" ? 2 : 1;
    EXPECT_EQ(line["tenant"], "acme");
    EXPECT_EQ(line["route"], line["id"] == "grpc" ? kGenerate : "/v1/completions");
    EXPECT_EQ(line["status"], line["id"] == "grpc" ? "OK" : "200");
    EXPECT_EQ(line["prompt_tokens"], 8 * prompts) << line;
    EXPECT_GE(line["cached_tokens"], 0);
    EXPECT_EQ(line["output_tokens"], 5 * prompts) << line;
    EXPECT_EQ(line["attempts"], 1);
    EXPECT_FALSE(line.contains("error")) << line;
    EXPECT_LE(line["ttft_ms"].get<double>(), line["total_ms"].get<double>());
  }
  EXPECT_EQ(AllLines().size(), 4u);
}

TEST_F(LoggedRequestsTest, WhatIsRefusedBeforeItIsARequestHasALineToo) {
  AddPrefill();
  AddDecode();
  NeedKeys({.requests_per_second = 0.001});
  StartLogged();
  const auto error_of = [&](const char* id, const char* status) {
    const Json line = Line(id);
    EXPECT_EQ(line["status"], status) << line;
    EXPECT_FALSE(line.contains("prompt_tokens")) << line;
    return line.value("error", "");
  };
  Post("/v1/completions", Completion(kPrompt, 5), {{"x-request-id", "no-key"}});
  EXPECT_EQ(error_of("no-key", "401"), "NO_IDENTITY");
  EXPECT_EQ(Line("no-key")["tenant"], "");
  Post("/v1/completions", {{"prompt", kPrompt}, {"n", -1}}, WithId("bad"));
  EXPECT_EQ(error_of("bad", "400"), "INVALID_ARGUMENT");
  EXPECT_EQ(Line("bad")["tenant"], "acme");
  Post(std::string("/v1/") + kPrompt, Json::object(), WithId("unknown"));
  EXPECT_EQ(error_of("unknown", "404"), "");
  EXPECT_EQ(Line("unknown")["route"], "other") << "a path may hold anything";
  NewClient().Delete("/v1/completions", WithId("method"));
  EXPECT_EQ(error_of("method", "405"), "");
  Post("/v1/completions", Completion(kPrompt, 5), WithId("first"));
  Post("/v1/completions", Completion(kPrompt, 5), WithId("limit"));
  EXPECT_EQ(error_of("limit", "429"), "TENANT_REQUESTS");
  RawRequests raw(http_->address());
  raw.Send("nonsense\r\n\r\n");

  v1::GenerateRequest by_grpc = Request(kPrompt, 5);
  by_grpc.set_request_id("grpc-no-key");
  EXPECT_FALSE(Generate(by_grpc).status.ok());
  EXPECT_EQ(error_of("grpc-no-key", "UNAUTHENTICATED"), "NO_IDENTITY");
  by_grpc.set_request_id("grpc-limit");
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + key_);
  EXPECT_FALSE(Generate(by_grpc, &context).status.ok());
  EXPECT_EQ(error_of("grpc-limit", "RESOURCE_EXHAUSTED"), "TENANT_REQUESTS");
  EXPECT_EQ(Line("grpc-limit")["tenant"], "acme");

  Eventually([&] {
    std::ifstream file(path_);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    return text.find("\"route\":\"other\",\"status\":\"400\"") != std::string::npos;
  });
}

TEST_F(LoggedRequestsTest, OtherMethodsHaveLinesAndProbesAndThePageHaveNone) {
  AddPrefill();
  AddDecode();
  StartLogged();
  EXPECT_EQ(NewClient().Get("/health")->status, 200);
  EXPECT_EQ(NewClient().Get("/")->status, 200);
  EXPECT_EQ(NewClient().Get("/v1/models")->status, 200);
  EXPECT_EQ(Post("/tokenize", {{"prompt", kPrompt}})->status, 200);
  grpc::ClientContext context;
  v1::TokenizeRequest tokenize;
  tokenize.set_text(kPrompt);
  v1::TokenizeResponse response;
  EXPECT_TRUE(stub_->Tokenize(&context, tokenize, &response).ok());
  std::vector<std::string> routes;
  for (const Json& line : AllLines()) routes.push_back(line["route"]);
  EXPECT_THAT(routes, testing::UnorderedElementsAre("/v1/models", "/tokenize",
                                                    "/baton.v1.GenerationService/Tokenize"));
}

TEST_F(LoggedRequestsTest, AClientThatLeavesHasALineWithWhatItWasGiven) {
  AddPrefill();
  AddDecode().Behave({.between_tokens = absl::Milliseconds(5)});
  StartLogged();
  Json request = Completion(kPrompt, 10000);
  request["stream"] = true;
  httplib::Request left;
  left.method = "POST";
  left.path = "/v1/completions";
  left.headers = {{"Content-Type", "application/json"}, {"x-request-id", "left"}};
  left.body = request.dump();
  left.content_receiver = [](const char*, size_t, uint64_t, uint64_t) { return false; };
  {
    httplib::Response response;
    httplib::Error error;
    httplib::Client client = NewClient();
    client.send(left, response, error);
  }
  grpc::ClientContext context;
  v1::GenerateRequest by_grpc = Request(kPrompt, 10000);
  by_grpc.set_request_id("grpc-left");
  auto reader = stub_->Generate(&context, by_grpc);
  v1::GenerateResponse first;
  EXPECT_TRUE(reader->Read(&first));
  context.TryCancel();
  reader->Finish();
  for (const char* id : {"left", "grpc-left"}) {
    const Json line = Line(id);
    EXPECT_EQ(line["status"], line["id"] == "left" ? "200" : "CANCELLED");
    EXPECT_EQ(line["error"], "CANCELLED");
    EXPECT_EQ(line["prompt_tokens"], 8);
    EXPECT_GE(line["output_tokens"], 1);
  }
}

TEST_F(LoggedRequestsTest, AStreamThatFailsAfterItBeganHasItsReason) {
  AddPrefill();
  AddDecode().Behave({.between_tokens = absl::Milliseconds(5)});
  StartLogged();
  Json request = Completion(kPrompt, 100000 - 10);
  request["stream"] = true;
  std::thread client([&] { Post("/v1/completions", request, {{"x-request-id", "fails"}}); });
  Eventually([&] { return http_->event_streams() == 1; });
  router_->EndAll();
  client.join();
  const Json line = Line("fails");
  EXPECT_EQ(line["status"], "200") << "the stream had begun";
  EXPECT_EQ(line["error"], "DRAINING");
}

}  // namespace
}  // namespace baton
