#include "router/front/generation_service.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/router/router_fixture.h"

namespace baton {
namespace {

using GenerationServiceTest = RouterFixture;

TEST_F(GenerationServiceTest, RefusesRequestsWhileItIsShortOfMemory) {
  AddPrefill();
  AddDecode();
  std::atomic<bool> short_of_memory = true;
  options_.short_of_memory = [&] { return short_of_memory.load(); };
  Start();
  const absl::Status generated = Generate(Request("abc", 10)).status;
  grpc::ClientContext context;
  v1::TokenizeRequest text;
  text.set_text("abc");
  v1::TokenizeResponse tokens;
  const absl::Status tokenized = FromGrpcStatus(stub_->Tokenize(&context, text, &tokens));
  for (const absl::Status& status : {generated, tokenized}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(ErrorReason(status), "SHORT_OF_MEMORY");
    EXPECT_TRUE(RetryDelay(status).has_value());
  }
  short_of_memory = false;
  EXPECT_TRUE(Generate(Request("abc", 10)).status.ok());
}

}  // namespace
}  // namespace baton
