#include "router/fleet/worker_names.h"

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
using ::testing::IsEmpty;

// A registry that knows a prefill worker by its address.
class WorkerNamesTest : public RegistryFixture {
 protected:
  const WorkerTarget prefill_{WORKER_ROLE_PREFILL, kPrefillAddress};
};

// A registry whose decode worker was found by a dns:/// name.
class NamedWorkerTest : public WorkerNamesTest {
 protected:
  static constexpr char kName[] = "dns:///d:1", kPod[] = "10.0.0.1:1";
  const WorkerTarget pod_{WORKER_ROLE_DECODE, kPod};

  NamedWorkerTest() {
    registry_.SetTargets({prefill_, pod_}, {{pod_, {.source = kName, .alone = true}}});
    watches_.Say(kPrefillAddress, Introduction(WORKER_ROLE_PREFILL));
    watches_.Say(kPod, Introduction(WORKER_ROLE_DECODE));
  }
  void Vanish() { registry_.SetTargets({prefill_}, {{pod_, {.source = kName, .vanished = true}}}); }
  // Both workers answer meanwhile.
  void RunWithAnswers(absl::Duration duration) {
    WatchResponse message;
    message.set_state(internal::v1::WORKER_STATE_READY);
    for (absl::Duration run; run < duration; run += kWatchInterval) {
      RunFor(kWatchInterval);
      watches_.Say(kPrefillAddress, message);
      watches_.Say(kPod, message);
    }
  }
};

TEST_F(NamedWorkerTest, AWorkerThatAnswersStaysWhileItsNameIsGone) {
  told_.clear();
  Vanish();
  RunWithAnswers(absl::Seconds(4));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  registry_.SetTargets({prefill_, pod_}, {{pod_, {.source = kName, .alone = true}}});
  RunWithAnswers(absl::Seconds(1));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  EXPECT_EQ(watches_.opened(kPod), 1);
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(NamedWorkerTest, AWorkerThatIsRememberedNoMoreGoesAtOnce) {
  Vanish();
  registry_.SetTargets({prefill_});
  RunFor(kTurn);
  EXPECT_FALSE(watches_.IsOpen(kPod));
  EXPECT_EQ(view_.Get().ready_decode, 0u);
}

TEST_F(NamedWorkerTest, AWorkerWithoutANameGoesWhenItDrains) {
  Vanish();
  WatchResponse message;
  message.set_state(internal::v1::WORKER_STATE_DRAINING);
  watches_.Say(kPod, message);
  RunFor(2 * kTurn);
  EXPECT_FALSE(watches_.IsOpen(kPod));
  EXPECT_EQ(watches_.opened(kPod), 1);
}

TEST_F(NamedWorkerTest, AWorkerWithoutANameGoesWhenItsWatchEnds) {
  Vanish();
  watches_.End(kPod);
  RunFor(absl::Seconds(3));
  EXPECT_EQ(watches_.opened(kPod), 1) << "it is not called again";
  Vanish();
  RunFor(kTurn);
  EXPECT_EQ(watches_.opened(kPod), 1);
}

TEST_F(NamedWorkerTest, AWorkerWithoutANameGoesWhenItIsSilent) {
  Vanish();
  RunFor(absl::Seconds(4));
  EXPECT_FALSE(watches_.IsOpen(kPod));
  EXPECT_EQ(watches_.opened(kPod), 1);
}

TEST_F(NamedWorkerTest, PushesMayGoToTheNameThatLedToTheWorkerAlone) {
  WatchResponse message = Introduction(WORKER_ROLE_DECODE, /*incarnation=*/2);
  message.mutable_info()->set_address("d:50051");
  watches_.Say(kPod, message);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  registry_.SetTargets({prefill_, pod_}, {{pod_, {.source = kName, .alone = false}}});
  message.mutable_info()->set_incarnation(3);
  watches_.Say(kPod, message);
  EXPECT_EQ(view_.Get().ready_decode, 0u) << "the name leads to other workers too";
}

TEST_F(NamedWorkerTest, AFamilyThatNeverAnswersDoesNotCountBesideTheOther) {
  const WorkerTarget v6{WORKER_ROLE_DECODE, "[2001:db8::1]:1"};
  const WorkerTarget v6_pod{WORKER_ROLE_DECODE, "[2001:db8::2]:1"};
  const WorkerTarget pod{WORKER_ROLE_DECODE, "10.0.0.2:1"};
  const auto found = [&](const std::vector<WorkerTarget>& targets) {
    TargetNames names;
    for (const WorkerTarget& target : targets) names[target].source = kName;
    std::vector<WorkerTarget> all = targets;
    all.insert(all.begin(), prefill_);
    registry_.SetTargets(all, names);
    RunWithAnswers(2 * kWatchInterval);
    return view_.Get().all_ready;
  };
  EXPECT_TRUE(found({pod_, v6}));
  EXPECT_FALSE(found({pod_, pod, v6})) << "a worker of the family that answers is missing";
  EXPECT_TRUE(found({pod_, v6, v6_pod}));
  watches_.Say(v6_pod.address, Introduction(WORKER_ROLE_DECODE));
  EXPECT_FALSE(found({pod_, v6, v6_pod})) << "the family answers";
  registry_.SetTargets({prefill_, v6}, {{v6, {.source = kName}}});
  RunFor(2 * kTurn);
  EXPECT_FALSE(view_.Get().all_ready) << "no other family is ready";
}

TEST_F(NamedWorkerTest, AnAddressThatNeverAnswersCountsIfNoNameLedToIt) {
  EXPECT_TRUE(view_.Get().all_ready);
  registry_.SetTargets({prefill_, pod_, {WORKER_ROLE_DECODE, "[::1]:1"}},
                       {{pod_, {.source = kName}}});
  EXPECT_FALSE(view_.Get().all_ready);
}

// A registry whose decode worker is given by a plain name.
class PlainNameTest : public WorkerNamesTest {
 protected:
  PlainNameTest() { registry_.SetTargets(targets_); }
  void LeadTo(const std::string& address) {
    registry_.SetTargets(targets_, {{targets_[1], {.addresses = {address}}}});
  }

  const std::vector<WorkerTarget> targets_ = {prefill_, {WORKER_ROLE_DECODE, kDecodeAddress}};
};

TEST_F(PlainNameTest, CallsAWorkerThatIsGoneOnNewConnectionsWhenItsNameLeadsElsewhere) {
  LeadTo("10.0.0.1");
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE));
  LeadTo("10.0.0.2");
  RunFor(kTurn);
  EXPECT_EQ(watches_.connected(kDecodeAddress), 1) << "it still answers";
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  watches_.End(kDecodeAddress);
  RunFor(2 * kTurn);
  EXPECT_EQ(watches_.connected(kDecodeAddress), 2);
  EXPECT_EQ(watches_.opened(kDecodeAddress), 2);
  RunFor(
      absl::Seconds(4));  // no worker is there: it is lost, and called again more and more rarely
  EXPECT_EQ(watches_.connected(kDecodeAddress), 2) << "the name leads where it led";
  const int opened = watches_.opened(kDecodeAddress);
  watches_.End(kDecodeAddress);
  RunFor(absl::Microseconds(2));
  LeadTo("10.0.0.3");
  RunFor(kTurn);
  EXPECT_EQ(watches_.opened(kDecodeAddress), opened + 1);
  EXPECT_EQ(watches_.connected(kDecodeAddress), 3);
}

TEST_F(PlainNameTest, ACallThatWaitsForDnsIsMadeAnewWhenTheNameIsKnown) {
  RunFor(absl::Seconds(2));
  EXPECT_EQ(watches_.opened(kDecodeAddress), 1);
  LeadTo("10.0.0.1");
  RunFor(2 * kTurn);
  EXPECT_EQ(watches_.opened(kDecodeAddress), 2);
  EXPECT_EQ(watches_.connected(kDecodeAddress), 2);
}

}  // namespace
}  // namespace baton
