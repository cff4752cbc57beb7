// Who is let in to the router's service.
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

#include "router/tenants/api_key.h"
#include "tests/router/router_fixture.h"
#include "tests/support/raw_call.h"

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

TEST_F(IdentityTest, ACallThroughAReverseProxyNeedsAKeyWhereCallsOfThisMachineNeedNone) {
  options_.needs_identity = false;
  Start();
  const v1::GenerateRequest request = Request("abc", 5);
  EXPECT_TRUE(Ask("", request).status.ok());
  for (const char* header : {"forwarded", "x-forwarded-for", "via"}) {
    for (const std::string& key : {std::string(), keys_of_["acme"]}) {
      grpc::ClientContext context;
      context.AddMetadata(header, "203.0.113.7");
      if (!key.empty()) context.AddMetadata("authorization", "Bearer " + key);
      const absl::Status status = Generate(request, &context).status;
      EXPECT_EQ(ErrorReason(status), key.empty() ? "NO_IDENTITY" : "") << header << status;
    }
  }
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

TEST_F(IdentityTest, EachChoiceOfARequestIsAStreamOfItsTenant) {
  Declare("acme", {.streams = 4});
  workers_[1]->Behave({.between_tokens = absl::Milliseconds(1)});
  Start();
  v1::GenerateRequest three = Request("abc", 50000);
  three.mutable_sampling_params()->set_n(3);
  grpc::ClientContext running;
  running.AddMetadata("authorization", "Bearer " + keys_of_["acme"]);
  const auto reader = stub_->Generate(&running, three);
  v1::GenerateResponse first;
  ASSERT_TRUE(reader->Read(&first));
  v1::GenerateRequest request = Request("abc", 5);
  request.mutable_sampling_params()->set_n(2);
  EXPECT_EQ(ErrorReason(Ask(keys_of_["acme"], request).status), "TENANT_STREAMS");
  EXPECT_TRUE(Ask(keys_of_["other"], request).status.ok());
  request.mutable_sampling_params()->set_n(1);
  EXPECT_TRUE(Ask(keys_of_["acme"], request).status.ok());
  request.mutable_sampling_params()->set_n(5);
  const absl::Status never = Ask(keys_of_["acme"], request).status;
  EXPECT_EQ(never.code(), absl::StatusCode::kInvalidArgument) << never;
  ASSERT_EQ(FieldViolations(never).size(), 1u) << never;
  EXPECT_EQ(FieldViolations(never)[0].field, "sampling_params.n");
  running.TryCancel();
  while (reader->Read(&first)) continue;
  reader->Finish();
  Eventually([&] { return router_->RunningRequests() == 0; });
  request.mutable_sampling_params()->set_n(4);
  Eventually([&] { return Ask(keys_of_["acme"], request).status.ok(); });
}

TEST_F(IdentityTest, TokensThatARequestMayMakeAreChargedWhileItRuns) {
  Declare("acme", {.tokens_per_minute = 20});
  workers_[1]->Behave({.between_tokens = absl::Seconds(1)});
  Start();
  grpc::ClientContext running;
  running.AddMetadata("authorization", "Bearer " + keys_of_["acme"]);
  v1::GenerateRequest large = Request("abc", 10);
  large.mutable_sampling_params()->set_n(2);
  const auto reader = stub_->Generate(&running, large);
  v1::GenerateResponse first;
  ASSERT_TRUE(reader->Read(&first));
  EXPECT_EQ(ErrorReason(Ask(keys_of_["acme"], Request("abc", 5)).status), "TENANT_TOKENS");
  workers_[1]->Behave({});
  running.TryCancel();
  while (reader->Read(&first)) continue;
  reader->Finish();
  Eventually([&] { return Ask(keys_of_["acme"], Request("abc", 5)).status.ok(); });
}

TEST_F(IdentityTest, TokensOfARefusedPromptAndOfATextThatIsTokenisedAreCharged) {
  for (const char* tenant : {"acme", "other"}) Declare(tenant, {.tokens_per_minute = 10});
  Start();
  const Answer refused = Ask(keys_of_["acme"], Request(std::string(kContext + 1, 'a'), 5));
  EXPECT_EQ(ErrorReason(refused.status), kReasonContextLengthExceeded) << refused.status;
  EXPECT_EQ(Metric("baton_tenant_tokens_total", "acme"), kContext + 1);
  EXPECT_EQ(ErrorReason(Ask(keys_of_["acme"], Request("abc", 5)).status), "TENANT_TOKENS");

  const auto tokenize = [&] {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + keys_of_["other"]);
    v1::TokenizeRequest request;
    request.set_text(std::string(1000, 'a'));
    v1::TokenizeResponse response;
    return FromGrpcStatus(stub_->Tokenize(&context, request, &response));
  };
  EXPECT_TRUE(tokenize().ok());
  EXPECT_EQ(Metric("baton_tenant_tokens_total", "other"), 1000);
  const absl::Status later = tokenize();
  EXPECT_EQ(ErrorReason(later), "TENANT_TOKENS") << later;
  EXPECT_LT(RetryDelay(later).value_or(absl::InfiniteDuration()), absl::Minutes(1))
      << "one text costs no more than a minute";
}

TEST_F(IdentityTest, APromptIsChargedOnceItIsTokenisedAlsoIfNoWorkerTakesIt) {
  Start();
  workers_[1]->Kill();
  Eventually([&] { return router_->fleet().ready_decode == 0; });
  EXPECT_FALSE(Ask(keys_of_["acme"], Request("abc", 5)).status.ok());
  EXPECT_EQ(Metric("baton_tenant_tokens_total", "acme"), 3);
}

// The columns of the keys in the table of who may call what; the access table has those of the
// certificates. No method names another's request, so that there is none for another tenant's key.
TEST_F(IdentityTest, EveryMethodIsOpenToKnownKeysOnly) {
  const std::string revoked = MakeApiKey();
  file_.keys.push_back({.hash = HashApiKey(revoked), .tenant = "acme", .revoked = true});
  Declare("late", {});  // has no key
  Start();
  const auto channel = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  const auto& service = *google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      v1::GenerationService::service_full_name());
  ASSERT_EQ(service.method_count(), 4);
  for (int m = 0; m < service.method_count(); ++m) {
    const std::string method =
        absl::StrCat("/", service.full_name(), "/", service.method(m)->name());
    const auto code = [&](const std::string& authorization) {
      // What is sent is no message, so who is let in is told that.
      return RawCall(channel, method, {"\xff\xff"}, {{"authorization", authorization}})
          .status.code();
    };
    EXPECT_EQ(RawCall(channel, method, {"\xff\xff"}).status.code(),
              absl::StatusCode::kUnauthenticated)
        << method;
    for (const char* tenant : {"acme", "other"}) {
      EXPECT_EQ(code("Bearer " + keys_of_[tenant]), absl::StatusCode::kInvalidArgument) << method;
    }
    for (const std::string& wrong : {"Bearer " + MakeApiKey(), "Bearer " + revoked,
                                     keys_of_["acme"], std::string("Bearer x"), std::string()}) {
      EXPECT_EQ(code(wrong), absl::StatusCode::kUnauthenticated) << method << " " << wrong;
    }
  }
}

}  // namespace
}  // namespace baton
