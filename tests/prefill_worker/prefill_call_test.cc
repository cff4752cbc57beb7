#include "prefill_worker/prefill_call.h"

#include <gtest/gtest.h>

#include "tests/common/engine/engine_harness.h"
#include "tests/support/sampling_messages.h"

namespace baton {
namespace {

using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;

PrefillRequest RequestWithoutPush() {
  PrefillRequest request;
  internal::v1::SequenceSpec& spec = *request.mutable_sequence();
  spec.mutable_key()->set_attempt(1);
  spec.set_capability(std::string(16, 'c'));
  for (uint32_t token = 0; token < 20; ++token) spec.add_token_ids(token);
  spec.set_prompt_length(20);
  *spec.mutable_sampling() = SamplingToProto(Greedy(1));
  return request;
}

// The worker ends all its calls when it drains, and one may just be looking at its request.
TEST(PrefillCallTest, WhatEndsBeforeItIsSubmittedHoldsNoBlocks) {
  EngineHarness harness(EngineHarness::SmallOptions());
  ChannelCache channels({.credentials = Credentials::Loopback()});
  const PrefillServiceOptions options;
  ThreadGroup pushes;
  bool done = false;
  auto call = std::make_shared<PrefillCall>(harness.engine(), channels, pushes, options,
                                            [&done] { done = true; });
  call->End(absl::UnavailableError("the worker ends"));
  call->Start(RequestWithoutPush());
  static_cast<grpc::ServerWriteReactor<PrefillResponse>&>(*call).OnDone();
  call.reset();
  harness.Run();
  harness.ExpectNothingHeld();
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace baton
