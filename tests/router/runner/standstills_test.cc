#include "router/runner/standstills.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// The named request and the other worker, such as "7 d-1"; empty if none is named.
std::string Named(const std::optional<Standstills::Named>& named) {
  return named.has_value() ? absl::StrCat(named->request, " ", named->other_worker) : "";
}

TEST(Standstills, TheOnlyRequestThatTwoWorkersHaveInCommonIsNamed) {
  Standstills standstills;
  EXPECT_EQ(Named(standstills.StoodStill({"a:1", "d-1"}, {5, 7, 9})), "");
  EXPECT_EQ(Named(standstills.StoodStill({"b:1", "d-2"}, {6, 7})), "7 d-1");
}

TEST(Standstills, OfSeveralInCommonNoneIsNamed) {
  Standstills standstills;
  EXPECT_EQ(Named(standstills.StoodStill({"a:1", "d-1"}, {5, 7, 9})), "");
  EXPECT_EQ(Named(standstills.StoodStill({"b:1", "d-2"}, {5, 7})), "");
  EXPECT_EQ(Named(standstills.StoodStill({"c:1", "d-3"}, {7, 11})), "7 d-1") << "a third decides";
}

TEST(Standstills, AWorkerThatStandsStillAgainProvesNothing) {
  Standstills standstills;
  EXPECT_EQ(Named(standstills.StoodStill({"a:1", "d-1"}, {7})), "");
  EXPECT_EQ(Named(standstills.StoodStill({"a:1", "d-2"}, {7})), "") << "under another id";
  EXPECT_EQ(Named(standstills.StoodStill({"b:1", "d-3"}, {7})), "7 d-2") << "the last id counts";
}

TEST(Standstills, WorkersThatDifferAboutItNameNone) {
  Standstills standstills;
  EXPECT_EQ(Named(standstills.StoodStill({"a:1", "d-1"}, {5})), "");
  EXPECT_EQ(Named(standstills.StoodStill({"b:1", "d-2"}, {7})), "");
  EXPECT_EQ(Named(standstills.StoodStill({"c:1", "d-3"}, {5, 7})), "");
}

TEST(Standstills, ARequestThatHasEndedIsForgotten) {
  Standstills standstills;
  EXPECT_EQ(Named(standstills.StoodStill({"a:1", "d-1"}, {5, 7})), "");
  standstills.Ended(5);
  EXPECT_EQ(Named(standstills.StoodStill({"b:1", "d-2"}, {7})), "7 d-1");
  standstills.Ended(7);
  EXPECT_EQ(Named(standstills.StoodStill({"c:1", "d-3"}, {7})), "") << "as if it were a new one";
}

// Keeps every standstill, and compares it with all.
class NaiveStandstills {
 public:
  std::string StoodStill(const std::string& address, const std::set<uint64_t>& requests) {
    std::map<std::string, std::set<uint64_t>> others;  // [address]
    for (const auto& [other, computed] : all_) {
      if (other != address) others[other].insert(computed.begin(), computed.end());
    }
    std::set<uint64_t> alone;
    for (const auto& [other, computed] : others) {
      std::vector<uint64_t> common;
      std::set_intersection(requests.begin(), requests.end(), computed.begin(), computed.end(),
                            std::back_inserter(common));
      if (common.size() == 1) alone.insert(common[0]);
    }
    all_.emplace_back(address, requests);
    return alone.size() == 1 ? absl::StrCat(*alone.begin()) : "";
  }
  void Ended(uint64_t request) {
    for (auto& [address, computed] : all_) computed.erase(request);
  }

 private:
  std::vector<std::pair<std::string, std::set<uint64_t>>> all_;
};

TEST(Standstills, AgreesWithANaiveComparisonOfAllStandstills) {
  std::mt19937 random(7);
  const auto draw = [&random](uint32_t below) { return random() % below; };
  int named = 0;
  for (int run = 0; run < 300; ++run) {
    Standstills standstills;
    NaiveStandstills naive;
    std::set<uint64_t> living;
    for (uint64_t i = 0; i < 6; ++i) living.insert(i);
    uint64_t next = 6;
    for (int step = 0; step < 30; ++step) {
      if (draw(3) == 0) {
        const uint64_t ended = *std::next(living.begin(), draw(6));
        living.erase(ended);
        living.insert(next++);
        standstills.Ended(ended);
        naive.Ended(ended);
        continue;
      }
      std::set<uint64_t> computed;
      for (const uint64_t request : living) {
        if (draw(3) == 0) computed.insert(request);
      }
      const std::string address = absl::StrCat("worker:", draw(4));
      const auto found =
          standstills.StoodStill({.address = address, .name = absl::StrCat("d-", step)},
                                 {computed.begin(), computed.end()});
      const std::string request = found.has_value() ? absl::StrCat(found->request) : "";
      ASSERT_EQ(request, naive.StoodStill(address, computed)) << "run " << run << ", step " << step;
      named += found.has_value() ? 1 : 0;
    }
  }
  EXPECT_GT(named, 100);
}

}  // namespace
}  // namespace baton
