#include "router/dispatch/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

namespace baton {
namespace {

using Entry = FairQueue::Entry;

Entry Of(uint64_t number, const std::string& tenant, uint64_t tokens, int32_t priority = 0) {
  return {.number = number, .priority = priority, .tenant = tenant, .tokens = tokens};
}

// The same order by looking through everything each time, with all tenants remembered for as long
// as somebody of their priority waits.
class PlainQueue {
 public:
  void Push(const Entry& entry) {
    if (!entry.resumed && Waiting(entry).empty()) {
      double& tag = tags_[{entry.priority, entry.tenant}];
      tag = std::max(tag, times_[entry.priority]);
      turns_[{entry.priority, entry.tenant}] = 0;
    }
    entries_.push_back(entry);
  }
  void Remove(uint64_t number) {
    const auto it = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& e) { return e.number == number; });
    const Entry entry = *it;
    entries_.erase(it);
    Forget(entry.priority);
  }
  std::optional<uint64_t> Front() const {
    const Entry* best = nullptr;
    for (const Entry& entry : entries_) {
      if (best == nullptr || Key(entry) < Key(*best)) best = &entry;
    }
    return best == nullptr ? std::nullopt : std::optional(best->number);
  }
  void TakeFront() {
    const uint64_t number = *Front();
    const Entry entry = *std::find_if(entries_.begin(), entries_.end(),
                                      [&](const Entry& e) { return e.number == number; });
    if (!entry.resumed) {
      std::map<std::string, int> sharing;
      for (const Entry& e : entries_) {
        if (!e.resumed && e.priority == entry.priority) ++sharing[e.tenant];
      }
      double& tag = tags_[{entry.priority, entry.tenant}];
      double& time = times_[entry.priority];
      const double advanced = std::max(time, tag) + static_cast<double>(entry.tokens) /
                                                        static_cast<double>(sharing.size());
      tag += static_cast<double>(entry.tokens);
      const bool more_wait = sharing.at(entry.tenant) > 1;
      time = more_wait ? std::max(time, std::min(advanced, tag)) : advanced;
      turns_[{entry.priority, entry.tenant}] = ++served_;
    }
    Remove(number);
  }

 private:
  std::vector<uint64_t> Waiting(const Entry& like) const {
    std::vector<uint64_t> numbers;
    for (const Entry& e : entries_) {
      if (!e.resumed && e.priority == like.priority && e.tenant == like.tenant) {
        numbers.push_back(e.number);
      }
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }
  std::tuple<int, int32_t, double, uint64_t, uint64_t, uint64_t> Key(const Entry& entry) const {
    if (entry.resumed) return {0, entry.priority, 0, 0, 0, entry.number};
    const std::pair member(entry.priority, entry.tenant);
    return {
        1,           entry.priority, tags_.at(member), turns_.at(member), Waiting(entry).front(),
        entry.number};
  }
  void Forget(int32_t priority) {
    for (const Entry& e : entries_) {
      if (!e.resumed && e.priority == priority) return;
    }
    times_.erase(priority);
    std::erase_if(tags_, [&](const auto& tag) { return tag.first.first == priority; });
  }

  std::vector<Entry> entries_;
  std::map<std::pair<int32_t, std::string>, double> tags_;
  std::map<std::pair<int32_t, std::string>, uint64_t> turns_;  // 0: not served since it came
  std::map<int32_t, double> times_;
  uint64_t served_ = 0;
};

std::optional<uint64_t> FrontOf(const FairQueue& queue) {
  return queue.Front() == nullptr ? std::nullopt : std::optional(queue.Front()->number);
}

TEST(FairQueue, AgreesWithAPlainQueueWhateverHappensAndLosesNothing) {
  for (uint32_t seed = 0; seed < 25; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    FairQueue queue;
    PlainQueue plain;
    std::vector<Entry> inside, out;  // out: came out for now, its workers may break
    uint64_t next_number = 1, taken = 0, removed = 0, pushed = 0;
    const uint32_t tenants = 1 + below(6), priorities = 1 + below(3), growth = 3 + below(6);
    for (int step = 0; step < 150; ++step) {
      const uint32_t what = below(10);
      if (what < growth || inside.empty()) {
        Entry entry = Of(next_number++, std::string(1, static_cast<char>('a' + below(tenants))),
                         1 + below(1000), static_cast<int32_t>(below(priorities)) - 1);
        if (below(8) == 0 && !out.empty()) {  // comes back, as resumed or as found no worker for
          const auto again = out.begin() + below(static_cast<uint32_t>(out.size()));
          entry = *again;
          out.erase(again);
          entry.resumed = below(2) == 0;
        }
        ++pushed;
        queue.Push(entry);
        plain.Push(entry);
        inside.push_back(entry);
      } else {
        uint64_t number = *plain.Front();
        if (what == 9) {
          number = inside[below(static_cast<uint32_t>(inside.size()))].number;
          ASSERT_TRUE(queue.Remove(number));
          plain.Remove(number);
          ++removed;
        } else {
          queue.TakeFront();
          plain.TakeFront();
          ++taken;
        }
        const auto it = std::find_if(inside.begin(), inside.end(),
                                     [&](const Entry& e) { return e.number == number; });
        ASSERT_NE(it, inside.end()) << "it came out twice";
        out.push_back(*it);
        inside.erase(it);
        ASSERT_FALSE(queue.Remove(number));
      }
      ASSERT_EQ(FrontOf(queue), plain.Front()) << "seed " << seed << " step " << step;
      ASSERT_EQ(queue.size(), inside.size());
    }
    while (queue.Front() != nullptr) {
      ASSERT_EQ(FrontOf(queue), plain.Front());
      queue.TakeFront();
      plain.TakeFront();
      ++taken;
    }
    EXPECT_EQ(pushed, taken + removed);
    EXPECT_FALSE(plain.Front().has_value());
    EXPECT_EQ(queue.idle_tenants(), 0u) << "nobody waits, so nobody is remembered";
  }
}

TEST(FairQueue, TenantsThatWaitAreServedEquallyToWithinTheirLargestRequests) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    FairQueue queue;
    uint64_t number = 1;
    constexpr size_t kTenants = 5;
    const std::vector<uint64_t> largest = {1, 10, 100, 1000, 10000};
    std::vector<uint64_t> served(kTenants), last(kTenants);
    const auto push = [&](size_t t) {
      queue.Push(
          Of(number++, std::string(1, static_cast<char>('a' + t)), 1 + random() % largest[t]));
    };
    for (size_t t = 0; t < kTenants; ++t) push(t), push(t);
    for (int turn = 0; turn < 3000; ++turn) {
      const Entry entry = *queue.Front();
      const auto t = static_cast<size_t>(entry.tenant[0] - 'a');
      queue.TakeFront();
      push(t);
      served[t] += entry.tokens;
      ASSERT_GT(entry.number, last[t]) << "first come, first served within a tenant";
      last[t] = entry.number;
      for (size_t a = 0; a < kTenants; ++a) {
        for (size_t b = 0; b < kTenants; ++b) {
          ASSERT_LE(served[a], served[b] + largest[a] + largest[b]) << a << " and " << b;
        }
      }
    }
  }
}

TEST(FairQueue, TheLowerPriorityNumberGoesFirstAndWhatWasServedBeforeGoesBeforeAll) {
  FairQueue queue;
  queue.Push(Of(1, "a", 10, 5));
  queue.Push(Of(2, "a", 10, -5));
  queue.Push(Of(3, "b", 10, 0));
  Entry resumed = Of(4, "b", 10, 7);
  resumed.resumed = true;
  queue.Push(resumed);
  resumed.number = 5;
  resumed.priority = 6;
  queue.Push(resumed);
  std::vector<uint64_t> order;
  for (; !queue.empty(); queue.TakeFront()) order.push_back(queue.Front()->number);
  EXPECT_EQ(order, (std::vector<uint64_t>{5, 4, 2, 3, 1}));
}

TEST(FairQueue, ATenantThatComesIsNotBehindAnothersBacklogAndSavesNothingUp) {
  FairQueue queue;
  uint64_t number = 1;
  for (; number <= 1000; ++number) queue.Push(Of(number, "heavy", 100));
  for (int i = 0; i < 100; ++i) queue.TakeFront();
  const uint64_t first_light = number;
  for (int i = 0; i < 100; ++i) queue.Push(Of(number++, "light", 100));
  int heavy = 0, light = 0, turns_until_light = 0;
  for (int i = 0; i < 40; ++i, queue.TakeFront()) {
    const bool is_light = queue.Front()->number >= first_light;
    if (is_light && light == 0) turns_until_light = i;
    ++(is_light ? light : heavy);
  }
  EXPECT_EQ(turns_until_light, 0) << "it waits for what is being served, and for nothing more";
  EXPECT_EQ(light, 20) << "from here on half each: what the other had before is not made up for";
}

TEST(FairQueue, ATenantThatComesAgainAndAgainWaitsForOneRequestEachTime) {
  FairQueue queue;
  uint64_t number = 1;
  for (; number <= 1000; ++number) queue.Push(Of(number, "heavy", 100));
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 4; ++i) queue.TakeFront();  // while "light" is away
    queue.Push(Of(number, "light", 100));
    EXPECT_EQ(FrontOf(queue), number) << "round " << round;
    while (FrontOf(queue) != number) queue.TakeFront();
    queue.TakeFront();
    ++number;
  }
}

TEST(FairQueue, WhatLeavesUnservedIsNotCharged) {
  FairQueue queue;
  queue.Push(Of(1, "a", 1000000));
  queue.Push(Of(2, "a", 1));
  queue.Push(Of(3, "b", 2));
  queue.Push(Of(4, "b", 2));
  EXPECT_TRUE(queue.Remove(1));
  EXPECT_EQ(FrontOf(queue), 2u);
  queue.TakeFront();
  queue.Push(Of(5, "a", 1));
  EXPECT_EQ(FrontOf(queue), 3u);
  queue.TakeFront();
  EXPECT_EQ(FrontOf(queue), 5u) << "its million tokens were never served";
}

TEST(FairQueue, NoStreamOfNewTenantsStarvesOneThatWaits) {
  FairQueue queue;
  uint64_t number = 1;
  queue.Push(Of(number++, "heavy", 10000));
  queue.Push(Of(number++, "other", 1));
  queue.TakeFront();  // heavy owes 10,000 tokens
  const uint64_t waits = number;
  queue.Push(Of(number++, "heavy", 1));
  int turns = 0;
  for (; FrontOf(queue) != waits; ++turns, ++number) {
    ASSERT_LT(turns, 5000) << "it is never reached";
    queue.TakeFront();
    queue.Push(Of(number, "new" + std::to_string(number), 10));
  }
  EXPECT_GT(turns, 100) << "the others have their share first";
}

Entry OfUser(uint64_t number, const std::string& tenant, const std::string& user) {
  return {.number = number, .tenant = tenant, .user = user, .tokens = 100};
}

TEST(FairQueue, ATenantOfManyUsersGetsNoMoreThanOneOfOne) {
  FairQueue queue;
  uint64_t number = 1;
  for (; number <= 1000; ++number) {
    queue.Push(OfUser(number, "many", "user" + std::to_string(number)));
  }
  const uint64_t first_lone = number;
  for (int i = 0; i < 100; ++i) queue.Push(OfUser(number++, "lone", ""));
  int lone = 0;
  for (int i = 0; i < 100; ++i, queue.TakeFront()) lone += queue.Front()->number >= first_lone;
  EXPECT_NEAR(lone, 50, 1);
}

TEST(FairQueue, TheUsersOfATenantShareWhatItGets) {
  FairQueue queue;
  uint64_t number = 1;
  for (int i = 0; i < 100; ++i) queue.Push(OfUser(number++, "acme", "heavy"));
  const uint64_t first_light = number;
  for (int i = 0; i < 100; ++i) queue.Push(OfUser(number++, "acme", "light"));
  const uint64_t first_other = number;
  for (int i = 0; i < 100; ++i) queue.Push(OfUser(number++, "other", "light"));
  int light = 0, other = 0;
  for (int i = 0; i < 80; ++i, queue.TakeFront()) {
    const uint64_t next = queue.Front()->number;
    other += next >= first_other;
    light += next >= first_light && next < first_other;
  }
  EXPECT_NEAR(other, 40, 1);
  EXPECT_NEAR(light, 20, 1);
}

TEST(FairQueue, TheOrderThatIsForeseenIsTheOrderOfBeingServed) {
  for (uint32_t seed = 0; seed < 25; ++seed) {
    std::mt19937 random(seed);
    FairQueue queue;
    for (uint64_t number = 1; number <= 200; ++number) {
      Entry entry = Of(number, std::string(1 + random() % 3, 't'), 1 + random() % 100);
      entry.user = std::string(random() % 4, 'u');
      queue.Push(entry);
      if (random() % 4 == 0) queue.TakeFront();
    }
    std::vector<uint64_t> foreseen, served;
    queue.ForEachInOrder([&](const Entry& entry) {
      foreseen.push_back(entry.number);
      return true;
    });
    for (; !queue.empty(); queue.TakeFront()) served.push_back(queue.Front()->number);
    EXPECT_EQ(foreseen, served) << "seed " << seed;
  }
}

TEST(FairQueue, RemembersABoundedNumberOfTenants) {
  FairQueue queue(/*max_idle_tenants=*/10);
  for (uint64_t number = 1; number <= 100; ++number) {
    queue.Push(Of(number, "t" + std::to_string(number), 1000));
  }
  queue.Push(Of(101, "t1", 1));
  size_t most = 0;
  for (; queue.size() > 1; queue.TakeFront()) most = std::max(most, queue.idle_tenants());
  EXPECT_EQ(most, 10u);
}

TEST(FairQueue, TellsTheOrderInWhichItWillServe) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    FairQueue queue;
    for (uint64_t number = 1; number <= 200; ++number) {
      Entry entry = Of(number, std::string(1, static_cast<char>('a' + random() % 5)),
                       1 + random() % 100, static_cast<int32_t>(random() % 2));
      entry.resumed = random() % 20 == 0;
      queue.Push(entry);
      if (random() % 4 == 0) queue.TakeFront();
    }
    std::vector<uint64_t> told, dropped;
    queue.ForEachInOrder([&](const Entry& entry) {
      const bool drop = !entry.resumed && entry.number % 7 == 0;
      (drop ? dropped : told).push_back(entry.number);
      return !drop;
    });
    for (const uint64_t number : dropped) ASSERT_TRUE(queue.Remove(number));
    std::vector<uint64_t> served;
    for (; !queue.empty(); queue.TakeFront()) served.push_back(queue.Front()->number);
    EXPECT_EQ(told, served) << "seed " << seed;
  }
}

}  // namespace
}  // namespace baton
