#include "common/rpc/silent_streams.h"

#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(SilentStreams, EndsAStreamWhoseFirstMessageDoesNotCome) {
  SilentStreams silent({.time = absl::Milliseconds(1)});
  absl::Status end;
  absl::Notification ended;
  const uint64_t id = silent.Add([&](const absl::Status& status) {
    end = status;
    ended.Notify();
  });
  EXPECT_NE(id, 0u);
  ended.WaitForNotification();
  EXPECT_EQ(end.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(end.message()), HasSubstr("first message did not come within 1ms"));
  EXPECT_EQ(ErrorReason(end), kReasonSilentStream);
  silent.Spoke(id);
}

TEST(SilentStreams, EndsAllThatAreSilentInWhateverOrderTheyCame) {
  SilentStreams silent({.time = absl::Milliseconds(20)});
  const auto add = [&silent](absl::Notification& ended) {
    return silent.Add([&ended](const absl::Status&) { ended.Notify(); });
  };
  absl::Notification spoke, first, second, later;
  const uint64_t id = add(spoke);
  add(first);
  silent.Spoke(id);
  add(second);
  first.WaitForNotification();
  second.WaitForNotification();
  add(later);  // when none is left
  later.WaitForNotification();
  EXPECT_FALSE(spoke.HasBeenNotified());
}

TEST(SilentStreams, EndsTheOldestOfTooManyAndNoneThatSpoke) {
  SilentStreams silent({.time = absl::Hours(1), .streams = 2});
  std::vector<int> ended;
  const auto add = [&](int name) {
    return silent.Add([&ended, name](const absl::Status& status) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(ErrorReason(status), kReasonSilentStream);
      ended.push_back(name);
    });
  };
  const uint64_t first = add(1);
  add(2);
  silent.Spoke(first);
  silent.Spoke(first);
  add(3);
  EXPECT_THAT(ended, ::testing::IsEmpty());
  add(4);
  EXPECT_THAT(ended, ::testing::ElementsAre(2));
}

}  // namespace
}  // namespace baton
