#include "client/plan/planned_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace baton {
namespace {

using Role = ReadyWorkers::Role;
using Outcome = Placement::Outcome;

class PlannedRouterTest : public testing::Test {
 protected:
  void Add(int prefill, int decode) {
    const WorkerSnapshot worker{.identity = "model",
                                .max_model_len = 4080,
                                .block_size = 16,
                                .total_blocks = 256,
                                .kv_bytes_per_token = 1000,
                                .free_blocks = 256};
    for (int i = 0; i < prefill; ++i) router_.Add(Role::kPrefill, worker);
    for (int i = 0; i < decode; ++i) router_.Add(Role::kDecode, worker);
  }
  // A request that is given workers.
  PlannedLease Placed(const PlannedRequest& request) {
    PlannedLease lease;
    EXPECT_EQ(router_.Place(request, lease), Outcome::kPlaced);
    return lease;
  }

  PageHolders holders_;
  PlannedRouter router_{{.disaggregation = Disaggregation::kAlways}, 16, holders_};
  const PlannedRequest request_{.at_ns = 0, .input_tokens = 100, .output_tokens = 10};
};

TEST_F(PlannedRouterTest, GivesAPrefillWorkerTwoPromptsAndThenNone) {
  Add(1, 1);
  PlannedLease first = Placed(request_), second = Placed(request_), third;
  EXPECT_EQ(first.prefill, 0u);
  EXPECT_EQ(first.decode, 1u);
  EXPECT_EQ(router_.Place(request_, third), Outcome::kWait);
  router_.Accepted(first);
  router_.Computed(first, 0, absl::Milliseconds(10));
  third = Placed(request_);
  EXPECT_EQ(router_.Place(request_, third), Outcome::kWait);
  EXPECT_EQ(second.computed_tokens, 100u);
}

TEST_F(PlannedRouterTest, GivesThePlaceOfAPromptThatIsPostponedToOthers) {
  Add(1, 2);
  PlannedLease first = Placed(request_);
  Placed(request_);
  PlannedLease third;
  ASSERT_EQ(router_.Place(request_, third), Outcome::kWait);
  router_.Postponed(first);
  third = Placed(request_);
  router_.Accepted(first);  // its memory has come: it has its place again
  PlannedLease fourth;
  EXPECT_EQ(router_.Place(request_, fourth), Outcome::kWait);
}

TEST_F(PlannedRouterTest, SpreadsRequestsOverTheLeastBusy) {
  Add(40, 40);
  std::map<uint32_t, int> prefill, decode;
  for (int i = 0; i < 40; ++i) {
    const PlannedLease lease = Placed(request_);
    ++prefill[lease.prefill];
    ++decode[lease.decode];
  }
  // The least busy of 8 drawn workers is chosen: nearly all get one.
  EXPECT_GT(prefill.size(), 30u);
  EXPECT_GT(decode.size(), 30u);
}

TEST_F(PlannedRouterTest, PrefersWhoHoldsMostOfThePrompt) {
  Add(100, 100);
  for (uint32_t worker = 0; worker < 200; ++worker) holders_.Add(5, worker);
  for (const uint32_t worker : {17u, 117u}) holders_.Add(6, worker);
  PlannedRequest request = request_;
  request.pages = {5, 6, 7};
  const PlannedLease lease = Placed(request);
  EXPECT_EQ(lease.prefill, 17u);
  EXPECT_EQ(lease.decode, 117u);
  EXPECT_EQ(lease.computed_tokens, 100u - 32u);
}

TEST_F(PlannedRouterTest, HasNobodyForARequestThatIsTooLong) {
  Add(2, 2);
  PlannedLease lease;
  EXPECT_EQ(router_.Place({.input_tokens = 4000, .output_tokens = 81}, lease),
            Outcome::kNoneIsReady);
}

}  // namespace
}  // namespace baton
