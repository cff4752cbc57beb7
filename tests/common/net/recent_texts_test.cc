#include "common/net/recent_texts.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RecentTexts, ATextIsLetThroughOnceInFiveMinutesAndAnotherAtOnce) {
  RecentTexts texts;
  absl::Time now = absl::UnixEpoch();
  int taken = 0;
  for (int second = 0; second < 600; second += 2) {
    taken += texts.Take("the handshake failed", now + absl::Seconds(second)) ? 1 : 0;
  }
  EXPECT_EQ(taken, 2);
  EXPECT_TRUE(texts.Take("another one", now + absl::Seconds(600)));
  EXPECT_FALSE(texts.Take("another one", now + absl::Seconds(600)));
}

TEST(RecentTexts, OfManyTextsTheOldestAreForgotten) {
  RecentTexts texts;
  const absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(texts.Take(std::to_string(i), now + absl::Milliseconds(i)));
  }
  EXPECT_FALSE(texts.Take("999", now + absl::Seconds(1)));
  EXPECT_TRUE(texts.Take("0", now + absl::Seconds(1)));
}

}  // namespace
}  // namespace baton
