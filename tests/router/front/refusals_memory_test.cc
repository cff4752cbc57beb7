// How much memory the refusals that are held take.
#include <gtest/gtest.h>
#include <unistd.h>

#include "router/front/refusals.h"
#include "router/tenants/api_key.h"
#include "tests/router/web/raw_requests.h"
#include "tests/router/web/web_fixture.h"
#include "tests/support/allocation_counter.h"

namespace baton {
namespace {

constexpr int kRefused = 64;
constexpr size_t kLarge = size_t{1} << 20;             // bytes of each refused request
constexpr size_t kHeldAtMost = kRefused * kLarge / 4;  // bytes of all of them in memory

class RefusalsMemoryTest : public WebFixture {
 protected:
  // Starts a router whose tenant has used up its requests, and its refusals that come at once.
  RefusalsMemoryTest() {
    KeysFile file;
    file.keys.push_back({.hash = HashApiKey(key_), .tenant = "acme"});
    file.tenants["acme"] = {.requests_per_second = 0.001};
    EXPECT_TRUE(WriteKeysFile(path_, file).ok());
    keys_ = *ApiKeys::Load(path_, metrics_, absl::Minutes(1));
    options_.keys = keys_.get();
    StartHttp();
    for (int i = 0; i <= static_cast<int>(Refusals::kBurst); ++i) {
      Post("/tokenize", {{"prompt", "a"}}, {{"x-api-key", key_}});
    }
    refused_before_ = Refused();
  }
  ~RefusalsMemoryTest() override {
    if (http_ != nullptr) http_->Close();
    Stop();
    unlink(path_.c_str());
  }
  double Refused() const { return Metric("baton_router_refusals_total", "TENANT_REQUESTS"); }
  void AwaitRefusals() {
    Eventually([&] { return Refused() >= refused_before_ + kRefused; });
  }

  const std::string path_ = testing::TempDir() + "refusals_memory_test.toml";
  const std::string key_ = MakeApiKey();
  std::unique_ptr<ApiKeys> keys_;
  double refused_before_ = 0;
};

TEST_F(RefusalsMemoryTest, ThoseThatAreHeldKeepNoBody) {
  const std::string request = RawPost("/v1/completions", key_, std::string(kLarge, 'a'));
  const size_t before = LiveBytes();
  RawRequests clients(http_->address());
  for (int i = 0; i < kRefused; ++i) clients.Send(request);
  AwaitRefusals();
  EXPECT_LT(LiveBytes(), before + kHeldAtMost);
}

TEST_F(RefusalsMemoryTest, ThoseThatAreHeldKeepNoMessage) {
  v1::GenerateRequest request;
  for (size_t i = 0; i < kLarge / sizeof(uint32_t); ++i) {
    request.mutable_prompt_token_ids()->add_ids(1);
  }
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  const size_t before = LiveBytes();
  for (int i = 0; i < kRefused; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->AddMetadata("authorization", "Bearer " + key_);
    readers.push_back(stub_->Generate(contexts.back().get(), request));
  }
  AwaitRefusals();
  EXPECT_LT(LiveBytes(), before + kHeldAtMost);
  for (size_t i = 0; i < readers.size(); ++i) {
    contexts[i]->TryCancel();
    EXPECT_FALSE(readers[i]->Finish().ok());
  }
}

}  // namespace
}  // namespace baton
