#include "client/plan/plan_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::HasSubstr;

// A load of 1,000 requests, all good if `keeps` is so, else half of them.
template <typename Keeps>
auto LoadKeptBy(Keeps keeps) {
  return [keeps](FleetSize size) {
    return PlanResult{
        .offered = 1000, .completed = 1000, .good = keeps(size) ? uint64_t{1000} : uint64_t{500}};
  };
}

TEST(FindFleet, FindsTheLeastOfEachRole) {
  const auto found = FindFleet(
      {}, LoadKeptBy([](FleetSize size) { return size.prefill >= 3 && size.decode >= 21; }));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->size.prefill, 3);
  EXPECT_EQ(found->size.decode, 21);
  EXPECT_TRUE(found->is_smallest);
  EXPECT_LT(found->replays, 30);
}

TEST(FindFleet, FindsTheLeastTotalWhereOneRoleMakesUpForTheOther) {
  const auto found =
      FindFleet({}, LoadKeptBy([](FleetSize size) {
                  return size.prefill >= 2 && size.decode >= 2 && size.prefill * size.decode >= 12;
                }));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->size.total(), 7);
  EXPECT_GE(found->size.prefill * found->size.decode, 12);
  EXPECT_TRUE(found->is_smallest);
}

TEST(FindFleet, LeavesWhatIsGivenAsItIs) {
  const auto found =
      FindFleet({.fixed = {.prefill = 40}},
                LoadKeptBy([](FleetSize size) { return size.prefill + size.decode >= 59; }));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->size.prefill, 40);
  EXPECT_EQ(found->size.decode, 19);
}

TEST(FindFleet, OfManyWorkersSaysThatItIsNotExact) {
  // Neither 1,000 of one nor of the other will do with just enough of the other.
  const auto found =
      FindFleet({}, LoadKeptBy([](FleetSize size) {
                  return size.prefill >= 1000 && size.decode >= 1000 && size.total() >= 2030;
                }));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GE(found->size.total(), 2030);
  EXPECT_LE(found->size.total(), 2030 + 40);
  EXPECT_FALSE(found->is_smallest);
}

TEST(FindFleet, SaysWhatTheLargestFleetKeeps) {
  const auto found = FindFleet({.most_workers = 64}, LoadKeptBy([](FleetSize) { return false; }));
  EXPECT_TRUE(absl::IsOutOfRange(found.status())) << found.status();
  EXPECT_THAT(found.status().ToString(), HasSubstr("64 prefill and 64 decode workers"));
  EXPECT_THAT(found.status().ToString(), HasSubstr("50.00 %"));
}

TEST(FindFleet, TakesAStoppedReplayForOneThatDoesNotKeepIt) {
  const auto found = FindFleet({}, [](FleetSize size) {
    return PlanResult{.offered = 10, .completed = 10, .good = 10, .stopped = size.decode < 5};
  });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->size.decode, 5);
}

}  // namespace
}  // namespace baton
