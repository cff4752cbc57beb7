// Who is let in to the router's service.
#include <gtest/gtest.h>
#include <unistd.h>

#include "router/tenants/api_key.h"
#include "tests/router/router_fixture.h"

namespace baton {
namespace {

class IdentityTest : public RouterFixture {
 protected:
  IdentityTest() {
    for (const char* tenant : {"acme", "other"}) {
      keys_of_[tenant] = MakeApiKey();
      file_.keys.push_back({.hash = HashApiKey(keys_of_[tenant]), .tenant = tenant});
      Declare(tenant, {});
    }
    options_.needs_identity = true;
    AddPrefill();
    AddDecode();
  }
  ~IdentityTest() override {
    Stop();
    unlink(path_.c_str());
  }

  // REQUIRES: the router is not started.
  void Declare(const std::string& tenant, const Tenant& limits) {
    file_.tenants[tenant] = limits;
    if (file_.tenants.size() < file_.keys.size()) return;
    ASSERT_TRUE(WriteKeysFile(path_, file_).ok());
    keys_ = *ApiKeys::Load(path_, metrics_, absl::Minutes(1));
    options_.keys = keys_.get();
  }
  Answer Ask(const std::string& key, const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    if (!key.empty()) context.AddMetadata("authorization", "Bearer " + key);
    return Generate(request, &context);
  }

  const std::string path_ = testing::TempDir() + "identity_test.toml";
  KeysFile file_;
  std::map<std::string, std::string> keys_of_;  // by tenant
  std::unique_ptr<ApiKeys> keys_;
};

TEST_F(IdentityTest, OnlyWhoShowsAKnownKeyIsServed) {
  Start();
  const v1::GenerateRequest request = Request("abc", 5);
  EXPECT_EQ(Ask(keys_of_["acme"], request).ids, Expected(request));
  for (const std::string& key : {std::string(), MakeApiKey(), std::string("x")}) {
    const Answer answer = Ask(key, request);
    EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnauthenticated) << answer.status;
    EXPECT_TRUE(answer.ids.empty());
  }
  EXPECT_EQ(Metric("baton_router_unauthenticated_total", "NO_IDENTITY"), 1);
  EXPECT_EQ(Metric("baton_router_refusals_total", "API_KEY_UNKNOWN"), 1);
}

TEST_F(IdentityTest, ATenantIsHeldToItsLimitsAndOthersAreNot) {
  Declare("acme", {.tokens_per_minute = 10, .streams = 1});
  workers_[1]->Behave({.between_tokens = absl::Milliseconds(1)});
  Start();
  grpc::ClientContext running;
  running.AddMetadata("authorization", "Bearer " + keys_of_["acme"]);
  const auto reader = stub_->Generate(&running, Request("abc", 50000));
  v1::GenerateResponse first;
  ASSERT_TRUE(reader->Read(&first));
  const v1::GenerateRequest request = Request("abc", 5);
  EXPECT_EQ(ErrorReason(Ask(keys_of_["acme"], request).status), "TENANT_STREAMS");
  EXPECT_EQ(Ask(keys_of_["other"], request).ids, Expected(request));
  Eventually([&] { return Metric("baton_tenant_tokens_total", "acme") > 10; });
  running.TryCancel();
  while (reader->Read(&first)) continue;
  reader->Finish();
  Eventually([&] { return router_->RunningRequests() == 0; });
  const Answer refused = Ask(keys_of_["acme"], request);
  EXPECT_EQ(ErrorReason(refused.status), "TENANT_TOKENS");
  EXPECT_TRUE(RetryDelay(refused.status).has_value());
  EXPECT_EQ(Metric("baton_tenant_tokens_total", "other"), 8) << "prompt and output";
}

TEST_F(IdentityTest, EveryMethodAsksForIt) {
  Start();
  const auto code = [&](auto method, auto request, auto response) {
    grpc::ClientContext unknown, known;
    known.AddMetadata("authorization", "Bearer " + keys_of_["acme"]);
    EXPECT_TRUE((stub_.get()->*method)(&known, request, &response).ok());
    return (stub_.get()->*method)(&unknown, request, &response).error_code();
  };
  using Stub = v1::GenerationService::Stub;
  v1::TokenizeRequest text;
  text.set_text("abc");
  v1::DetokenizeRequest ids;
  ids.add_token_ids(1);
  EXPECT_EQ(code(&Stub::Tokenize, text, v1::TokenizeResponse()), grpc::UNAUTHENTICATED);
  EXPECT_EQ(code(&Stub::Detokenize, ids, v1::DetokenizeResponse()), grpc::UNAUTHENTICATED);
  EXPECT_EQ(code(&Stub::ListModels, v1::ListModelsRequest(), v1::ListModelsResponse()),
            grpc::UNAUTHENTICATED);
}

}  // namespace
}  // namespace baton
