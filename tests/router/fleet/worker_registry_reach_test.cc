#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "router/fleet/worker_registry.h"
#include "tests/router/fleet/registry_fixture.h"

namespace baton {
namespace {

using internal::v1::WatchResponse;
using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the log says of workers that are not reached or not used.
class RegistryReachTest : public PairRegistryFixture {};

TEST_F(RegistryReachTest, AWorkerThatWasNeverReachedIsOneLineForEachReasonAndAgainInFiveMinutes) {
  watches_.Fail(kDecodeAddress,
                absl::UnavailableError("failed to connect to all addresses; last error: UNKNOWN: "
                                       "ipv4:127.0.0.1:1: Failed to connect to remote host: "
                                       "Connection refused"));
  const auto refused = HasSubstr("decode worker d:1 is not reached: connection refused");
  EXPECT_THAT(LinesAbout("d:1", absl::Minutes(4)), ElementsAre(refused));
  EXPECT_LE(watches_.opened(kDecodeAddress), 4 * 60 + 4) << "it backs off to once a second";
  EXPECT_THAT(LinesAbout("d:1", absl::Minutes(2)), ElementsAre(refused));
  watches_.Fail(kDecodeAddress,
                absl::UnavailableError("DNS resolution failed for d:1: C-ares status is not "
                                       "ARES_SUCCESS qtype=A name=d is_balancer=0: Domain name "
                                       "not found"));
  EXPECT_THAT(LinesAbout("d:1", absl::Seconds(10)),
              ElementsAre(HasSubstr("decode worker d:1 is not reached: no such host")));
  watches_.Fail(kDecodeAddress, absl::OkStatus());
  RunFor(absl::Seconds(3));
  watches_.Say(kDecodeAddress, Introduction(WORKER_ROLE_DECODE));
  EXPECT_EQ(view_.Get().ready_decode, 1u);
}

TEST_F(RegistryReachTest, AWorkerThatNeverSaysAnythingIsNamedOnce) {
  EXPECT_THAT(LinesAbout("d:1", absl::Minutes(4)),
              ElementsAre(HasSubstr("decode worker d:1 is not reached: the port is open and "
                                    "silent")));
}

TEST_F(RegistryReachTest, AnAddressThatMayNotBeCalledIsOneLineAndAWorkerThatIsNotReady) {
  Introduce();
  EXPECT_TRUE(view_.Get().all_ready);
  watches_.Forbid("x:1", absl::PermissionDeniedError("connection to x:1 is beyond loopback"));
  std::vector<std::string> lines;
  for (int poll = 0; poll < 60; ++poll) {
    registry_.SetTargets({{WORKER_ROLE_PREFILL, kPrefillAddress},
                          {WORKER_ROLE_DECODE, kDecodeAddress},
                          {WORKER_ROLE_DECODE, "x:1"}});
    const std::vector<std::string> more = LinesAbout("x:1", absl::Seconds(2));
    lines.insert(lines.end(), more.begin(), more.end());
  }
  EXPECT_THAT(lines, ElementsAre(HasSubstr("decode worker x:1 is not reached: connection to x:1 "
                                           "is beyond loopback")));
  Introduce();
  RunFor(kTurn);
  EXPECT_EQ(view_.Get().ready_decode, 1u);
  EXPECT_FALSE(view_.Get().all_ready);
}

TEST_F(RegistryReachTest, AWorkerThatIsNeverUsedIsLoggedAgainWhileItAnswers) {
  WatchResponse message = Introduction(WORKER_ROLE_DECODE);
  message.mutable_info()->mutable_identity()->set_tokenizer_digest("other");
  watches_.Say(kDecodeAddress, message);
  message.clear_info();
  std::vector<std::string> lines;
  for (int i = 0; i < 11 * 60; ++i) {
    const std::vector<std::string> more = LinesAbout("d:1", absl::Seconds(1));
    lines.insert(lines.end(), more.begin(), more.end());
    watches_.Say(kDecodeAddress, message);
  }
  const auto again = HasSubstr("decode worker 'd' at d:1 is still not used: it has another");
  EXPECT_THAT(lines, ElementsAre(again, again));
}

}  // namespace
}  // namespace baton
