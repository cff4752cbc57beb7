#include "router/fleet/spare_addresses.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "tests/router/fleet/registry_fixture.h"

namespace baton {
namespace {

using internal::v1::WatchResponse;
using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kOtherAddress[] = "d:2";

// The decode worker is a target at two addresses.
class TwoAddressesTest : public PairRegistryFixture {
 protected:
  TwoAddressesTest() {
    registry_.SetTargets({{WORKER_ROLE_PREFILL, kPrefillAddress},
                          {WORKER_ROLE_DECODE, kDecodeAddress},
                          {WORKER_ROLE_DECODE, kOtherAddress}});
    Introduce();
  }
  // It says at its addresses that it is ready, for some time.
  void KeepSaying(const std::vector<std::string>& addresses, absl::Duration time) {
    WatchResponse message;
    message.set_state(internal::v1::WORKER_STATE_READY);
    for (absl::Duration said; said < time; said += kWatchInterval) {
      RunFor(kWatchInterval);
      for (const std::string& address : addresses) {
        if (watches_.IsOpen(address)) watches_.Say(address, message);
      }
    }
  }
};

TEST_F(TwoAddressesTest, OneWorkerAtTwoAddressesIsOneAndTheOtherAddressIsNamedOnce) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("decode worker 'd' at d:2 is the one at d:1"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  EXPECT_TRUE(view_.Get().all_ready);
  EXPECT_THAT(told_, ElementsAre("p:1 is up", "d:1 is up"));
}

TEST_F(TwoAddressesTest, TheSpareAddressIsUsedWhenTheFirstIsLost) {
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  KeepSaying({kPrefillAddress, kOtherAddress}, absl::Seconds(4));
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("no message")));
  EXPECT_EQ(view_.Get().ready_decode, 0u);
  ASSERT_EQ(watches_.opened(kOtherAddress), 2) << "it is asked to introduce itself";
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE));
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u) << "now the first address is spare";
  EXPECT_EQ(fleet_.ready().size(), 2u);
}

TEST_F(TwoAddressesTest, TheSpareAddressIsUsedWhenTheFirstIsNoTargetAnyMore) {
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  registry_.SetTargets(
      {{WORKER_ROLE_PREFILL, kPrefillAddress}, {WORKER_ROLE_DECODE, kOtherAddress}});
  RunFor(3 * kTurn);
  ASSERT_EQ(watches_.opened(kOtherAddress), 2);
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
}

TEST_F(TwoAddressesTest, AWorkerThatWasRestartedIsOneAgain) {
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE, /*incarnation=*/2));
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE, /*incarnation=*/2));
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
}

TEST_F(TwoAddressesTest, WhoTellsAnothersNameAndIncarnationPushesNobodyOut) {
  const std::vector<WatchResponse> others = [] {
    std::vector<WatchResponse> told(3, Introduction(WORKER_ROLE_DECODE));
    told[0].mutable_info()->set_incarnation(9);
    told[1].mutable_info()->set_name("e");
    told[2].mutable_info()->set_address("d:50051");
    return told;
  }();
  for (const WatchResponse& other : others) {
    watches_.Say(kOtherAddress, other);
    EXPECT_EQ(view_.Get().ready_decode, 2u) << "that is another worker";
    registry_.SetTargets(
        {{WORKER_ROLE_PREFILL, kPrefillAddress}, {WORKER_ROLE_DECODE, kDecodeAddress}});
    RunFor(kTurn);
    registry_.SetTargets({{WORKER_ROLE_PREFILL, kPrefillAddress},
                          {WORKER_ROLE_DECODE, kDecodeAddress},
                          {WORKER_ROLE_DECODE, kOtherAddress}});
  }
  watches_.Certify(kOtherAddress, "spiffe://baton/decode/stolen");
  watches_.Say(kOtherAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_EQ(view_.Get().ready_decode, 2u) << "it has another certificate";
  EXPECT_THAT(lost_, IsEmpty());
}

}  // namespace
}  // namespace baton
