#include "decode_worker/quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

#include "common/rpc/status.h"

namespace baton {
namespace {

TEST(Quarantine, RefusesWhoIsInItAndNobodyElse) {
  Quarantine quarantine;
  quarantine.Add("b");
  quarantine.Add("a");
  quarantine.Add("");
  EXPECT_THAT(quarantine.pushers(), testing::ElementsAre("a", "b"));
  EXPECT_EQ(ErrorReason(quarantine.CheckTrusted("a")), kReasonPusherQuarantined);
  EXPECT_TRUE(absl::IsUnavailable(quarantine.CheckTrusted("a")));
  EXPECT_TRUE(quarantine.CheckTrusted("c").ok());
}

TEST(Quarantine, RefusesEverybodyOnceItIsFull) {
  Quarantine quarantine;
  for (size_t i = 0; i < Quarantine::kMost; ++i) {
    EXPECT_TRUE(quarantine.CheckTrusted("another").ok());
    quarantine.Add(absl::StrCat(i));
  }
  quarantine.Add("one more");
  EXPECT_EQ(quarantine.size(), Quarantine::kMost);
  EXPECT_EQ(ErrorReason(quarantine.CheckTrusted("another")), kReasonPusherQuarantined);
}

}  // namespace
}  // namespace baton
