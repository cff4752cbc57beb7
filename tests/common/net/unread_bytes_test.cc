#include "common/net/unread_bytes.h"

#include <deque>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(UnreadBytes, AreBoundedTogetherAndComeBack) {
  UnreadBytes all(100);
  {
    UnreadBytes::Part first(all), second(all);
    EXPECT_TRUE(first.Take(40));
    EXPECT_TRUE(second.Take(60));
    EXPECT_FALSE(first.Take(1));
    EXPECT_TRUE(first.Take(0));
    EXPECT_EQ(all.bytes(), 100u);
    second.GiveBack();
    EXPECT_TRUE(first.Take(1));
    EXPECT_TRUE(second.Take(1)) << "a part counts the next answer too";
  }
  EXPECT_EQ(all.bytes(), 0u);
}

TEST(UnreadBytes, ATenantHasAtMostAsManyAsStayFree) {
  UnreadBytes all(64);
  std::deque<UnreadBytes::Part> parts;
  const auto taken_by = [&](const std::string& tenant) {
    int taken = 0;
    while (true) {
      UnreadBytes::Part& part = parts.emplace_back(all);
      part.SetTenant(tenant);
      if (!part.Take(1)) return taken;
      ++taken;
    }
  };
  EXPECT_EQ(taken_by("a"), 32);
  EXPECT_EQ(taken_by("b"), 16);
  EXPECT_EQ(taken_by("c"), 8);
  EXPECT_EQ(taken_by("a"), 0) << "it has its part";
  EXPECT_EQ(taken_by(""), 8) << "the anonymous tenant may take what is free";
  parts.clear();
  EXPECT_EQ(all.bytes(), 0u);
}

TEST(UnreadBytes, AnAnswerThatIsAloneIsTakenAndLeavesRoomToOthers) {
  UnreadBytes all(64);
  UnreadBytes::Part huge(all), same(all), other(all);
  huge.SetTenant("a");
  same.SetTenant("a");
  other.SetTenant("b");
  EXPECT_TRUE(huge.Take(1000));
  EXPECT_EQ(all.bytes(), 32u);
  EXPECT_FALSE(same.Take(1));
  EXPECT_TRUE(other.Take(16));
  huge.GiveBack();
  EXPECT_TRUE(same.Take(24));
}

}  // namespace
}  // namespace baton
