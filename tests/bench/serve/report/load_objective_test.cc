#include "bench/serve/report/load_objective.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMillisecond = 1'000'000;

LoadObjective ObjectiveOf(const std::string& text) {
  auto objective = ParseLoadObjective(text);
  EXPECT_TRUE(objective.ok()) << objective.status();
  return objective.ok() ? *std::move(objective) : LoadObjective{};
}

// A request that was due at 1 ms, with messages at 11, 21, 41 and 141 ms, which ended at 201 ms.
LoadRecord AnsweredRecord() {
  LoadRecord record{.intended_ns = kMillisecond, .sent_ns = 6 * kMillisecond};
  for (const int64_t ms : {11, 21, 41, 141}) {
    record.messages.push_back({.at_ns = ms * kMillisecond, .tokens = 2});
  }
  record.end_ns = 201 * kMillisecond;
  return record;
}

bool KeepsLimits(const std::string& objective) {
  return Keeps(AnsweredRecord(), ObjectiveOf(objective));
}

TEST(LoadObjective, IsReadFieldByField) {
  const LoadObjective objective = ObjectiveOf("ttft=500ms,itl_p95=100ms,itl=1s,");
  ASSERT_EQ(objective.size(), 3u);
  EXPECT_EQ(objective[0].time, LimitedTime::kTtft);
  EXPECT_EQ(objective[0].most_ns, 500 * kMillisecond);
  EXPECT_EQ(objective[1].name, "itl_p95");
  EXPECT_EQ(objective[1].time, LimitedTime::kItl);
  EXPECT_EQ(objective[1].percent, 95);
  EXPECT_EQ(objective[2].percent, 100);
  EXPECT_THAT(ObjectiveOf(""), IsEmpty());
}

TEST(LoadObjective, AnErrorNamesTheField) {
  for (const char* field :
       {"ttfb=1s", "itl_p0=1s", "itl_p100=1s", "itl_px=1s", "ttft_p50=1s", "ttft=1", "ttft"}) {
    const absl::Status status = ParseLoadObjective(std::string("e2e=1s,") + field).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field;
    const std::string name = std::string(field).substr(0, std::string(field).find('='));
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

TEST(LoadObjective, TimesCountFromWhenTheRequestWasDue) {
  EXPECT_TRUE(KeepsLimits("ttft=10ms"));
  EXPECT_FALSE(KeepsLimits("ttft=9ms"));
  EXPECT_TRUE(KeepsLimits("e2e=200ms"));
  EXPECT_FALSE(KeepsLimits("e2e=199ms"));
}

TEST(LoadObjective, AGapIsBetweenMessagesAndAPercentileIsOfThisRequestsOwn) {
  EXPECT_TRUE(KeepsLimits("itl=100ms"));
  EXPECT_FALSE(KeepsLimits("itl=99ms"));
  EXPECT_TRUE(KeepsLimits("itl_p66=20ms"));
  EXPECT_FALSE(KeepsLimits("itl_p67=20ms"));
}

TEST(LoadObjective, AllLimitsAreToBeKept) {
  EXPECT_TRUE(KeepsLimits("ttft=10ms,itl=100ms,e2e=200ms"));
  EXPECT_FALSE(KeepsLimits("ttft=10ms,itl=99ms,e2e=200ms"));
  EXPECT_TRUE(KeepsLimits("")) << "there are none";
}

TEST(LoadObjective, TheTimeOfATokenIsTheMeanAfterTheFirst) {
  LoadRecord record = AnsweredRecord();
  EXPECT_EQ(TpotNanoseconds(record), 18'571'429) << "130 ms over 7 tokens, rounded";
  EXPECT_TRUE(KeepsLimits("tpot=19ms"));
  EXPECT_FALSE(KeepsLimits("tpot=18ms"));
  record.messages = {{.at_ns = 0, .tokens = 1}, {.at_ns = 5, .tokens = 2}};
  EXPECT_EQ(TpotNanoseconds(record), 3) << "half is rounded up";
  record.messages.resize(1);
  EXPECT_EQ(TpotNanoseconds(record), 0);
}

}  // namespace
}  // namespace baton
