#include "router/placement/ready_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace baton {
namespace {

using Role = ReadyWorkers::Role;

const WorkerNeeds kTypicalNeeds{.decode = true, .prompt_tokens = 50, .max_total_tokens = 60};

class ReadyWorkersTest : public testing::Test {
 protected:
  WorkerSnapshot& Add(Role role, uint64_t id, const std::string& identity = "m",
                      uint32_t max_model_len = 100) {
    auto worker = std::make_unique<WorkerSnapshot>();
    worker->id = id;
    worker->identity = identity;
    worker->max_model_len = max_model_len;
    worker->block_size = 32;
    worker->free_blocks = 10;
    ready_.Add(role, *worker);
    return *(workers_[id] = std::move(worker));
  }
  static std::set<uint64_t> Ids(const std::vector<WorkerSnapshot>& workers) {
    std::set<uint64_t> ids;
    for (const WorkerSnapshot& worker : workers) EXPECT_TRUE(ids.insert(worker.id).second);
    return ids;
  }

  std::map<uint64_t, std::unique_ptr<WorkerSnapshot>> workers_;
  ReadyWorkers ready_;
};

TEST_F(ReadyWorkersTest, FewWorkersAreAllCandidates) {
  for (uint64_t id = 1; id <= 3; ++id) Add(Role::kPrefill, id);
  for (uint64_t id = 11; id <= 18; ++id) Add(Role::kDecode, id);
  const auto candidates = ready_.Choose(kTypicalNeeds, {}, {}, 7);
  EXPECT_EQ(Ids(candidates.prefill), (std::set<uint64_t>{1, 2, 3}));
  EXPECT_EQ(Ids(candidates.decode).size(), 8u);
}

TEST_F(ReadyWorkersTest, OfManyAFewAreDrawnAndOverTheTurnsAll) {
  for (uint64_t id = 1; id <= 1000; ++id) Add(id % 2 == 0 ? Role::kPrefill : Role::kDecode, id);
  std::set<uint64_t> seen;
  for (uint64_t turn = 0; turn < 2000; ++turn) {
    const auto candidates = ready_.Choose(kTypicalNeeds, {}, {}, turn);
    EXPECT_LE(candidates.prefill.size(), ReadyWorkers::kCandidates);
    EXPECT_GE(candidates.prefill.size(), 2u);
    for (const uint64_t id : Ids(candidates.prefill)) seen.insert(id);
    for (const uint64_t id : Ids(candidates.decode)) seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST_F(ReadyWorkersTest, ThoseWithRoomAreFoundAmongManyThatHaveNone) {
  for (uint64_t id = 1; id <= 500; ++id) {
    Add(Role::kPrefill, id).own_prompts = kMaxQueuedPrompts;
    ready_.Changed(id);
    Add(Role::kDecode, 1000 + id).takes_requests = false;
    ready_.Changed(1000 + id);
  }
  EXPECT_EQ(Place(kTypicalNeeds, ready_.Choose(kTypicalNeeds, {}, {}, 1).prefill,
                  ready_.Choose(kTypicalNeeds, {}, {}, 1).decode, {}, 1)
                .outcome,
            Placement::Outcome::kWait);
  EXPECT_FALSE(ready_.has_room());
  workers_[77]->own_prompts = 1;
  ready_.Changed(77);
  workers_[1078]->takes_requests = true;
  ready_.Changed(1078);
  EXPECT_TRUE(ready_.has_room());
  for (uint64_t turn = 0; turn < 10; ++turn) {
    const auto candidates = ready_.Choose(kTypicalNeeds, {}, {}, turn);
    EXPECT_EQ(Ids(candidates.prefill), std::set<uint64_t>{77});
    EXPECT_EQ(Ids(candidates.decode), std::set<uint64_t>{1078});
  }
}

TEST_F(ReadyWorkersTest, ThoseThatHoldMostOfThePromptAndThePreferredAreCandidates) {
  std::vector<ReadyWorkers::Held> held;
  for (uint64_t id = 1; id <= 600; ++id) {
    Add(id % 2 == 0 ? Role::kPrefill : Role::kDecode, id);
    held.push_back({.worker_id = id, .tokens = 32});
  }
  held[441].tokens = 64;                               // worker 442
  held.push_back({.worker_id = 9999, .tokens = 640});  // gone meanwhile
  WorkerNeeds needs = kTypicalNeeds;
  needs.prefer_decode = 333;
  const auto candidates = ready_.Choose(needs, held, {}, 5);
  const auto cached = [&](uint64_t id) {
    for (const auto* side : {&candidates.prefill, &candidates.decode}) {
      for (const WorkerSnapshot& worker : *side) {
        if (worker.id == id) return static_cast<int>(worker.cached_tokens);
      }
    }
    return -1;
  };
  EXPECT_EQ(cached(442), 32) << "of 50 tokens whole blocks of 32, never the last one";
  EXPECT_EQ(cached(333), 0);
  EXPECT_LE(candidates.prefill.size(), 2 * ReadyWorkers::kCandidates);
  needs.prompt_tokens = 32;
  EXPECT_EQ(ready_.Choose(needs, held, {}, 5).prefill.back().cached_tokens, 0u);
}

TEST_F(ReadyWorkersTest, RoundRobinGivesEachItsTurn) {
  for (uint64_t id = 1; id <= 30; ++id) {
    Add(Role::kPrefill, id);
    Add(Role::kDecode, 100 + id);
  }
  const PlacementOptions options{.policy = PlacementPolicy::kRoundRobin};
  std::map<uint64_t, int> given;
  for (uint64_t turn = 0; turn < 300; ++turn) {
    const auto candidates = ready_.Choose(kTypicalNeeds, {}, options, turn);
    const Placement placement =
        Place(kTypicalNeeds, candidates.prefill, candidates.decode, options, turn);
    ++given[candidates.prefill[*placement.prefill].id];
    ++given[candidates.decode[*placement.decode].id];
  }
  EXPECT_EQ(given.size(), 60u);
  for (const auto& [id, count] : given) EXPECT_EQ(count, 10) << id;
}

// Random fleets of several models and lengths: if anybody could serve the request, candidates do.
TEST_F(ReadyWorkersTest, ServesWheneverSomebodyCould) {
  std::mt19937 random(11);
  const auto upto = [&](unsigned n) { return static_cast<uint32_t>(random() % (n + 1)); };
  uint64_t next_id = 1;
  std::map<uint64_t, Role> roles;
  for (int round = 0; round < 1000; ++round) {
    const unsigned what = upto(9);
    if (what < 4) {
      const Role role = upto(1) == 0 ? Role::kPrefill : Role::kDecode;
      roles[next_id] = role;
      Add(role, next_id++, std::string(1, static_cast<char>('a' + upto(2))), 50 + upto(2) * 25);
    } else if (!roles.empty()) {
      const auto it = std::next(roles.begin(), upto(static_cast<unsigned>(roles.size()) - 1));
      if (what < 4 + roles.size() / 10) {
        ready_.Remove(it->first);
        workers_.erase(it->first);
        roles.erase(it);
      } else {
        workers_[it->first]->own_prompts = upto(kMaxQueuedPrompts);
        workers_[it->first]->takes_requests = upto(3) > 0;
        ready_.Changed(it->first);
      }
    }
    const WorkerNeeds needs{.prompt_tokens = 20, .max_total_tokens = 40 + upto(70)};
    const PlacementOptions options{.policy = static_cast<PlacementPolicy>(upto(2)),
                                   .disaggregation = Disaggregation::kAlways};
    bool now = false, some_time = false;
    for (const auto& [p, prefill_role] : roles) {
      for (const auto& [d, decode_role] : roles) {
        if (prefill_role != Role::kPrefill || decode_role != Role::kDecode) continue;
        const WorkerSnapshot &x = *workers_[p], &y = *workers_[d];
        if (x.identity != y.identity || !Fits(x, needs) || !Fits(y, needs)) continue;
        some_time = true;
        now |= HasRoomForPrompt(x) && y.takes_requests;
      }
    }
    const auto candidates = ready_.Choose(needs, {}, options, random());
    const auto outcome =
        Place(needs, candidates.prefill, candidates.decode, options, random()).outcome;
    EXPECT_EQ(outcome != Placement::Outcome::kNoneIsReady, some_time) << "round " << round;
    EXPECT_EQ(outcome == Placement::Outcome::kPlaced, now) << "round " << round;
  }
  EXPECT_GT(roles.size(), 10u);
}

TEST_F(ReadyWorkersTest, KnowsTheLongestRequestThatAPairTakes) {
  EXPECT_EQ(ready_.longest_of_pairs(), 0u);
  Add(Role::kPrefill, 1, "a", 300);
  Add(Role::kDecode, 2, "b", 500);
  EXPECT_EQ(ready_.longest_of_pairs(), 0u);
  EXPECT_EQ(ready_.longest_of_decode(), 500u);
  Add(Role::kDecode, 3, "a", 200);
  Add(Role::kDecode, 4, "a", 250);
  EXPECT_EQ(ready_.longest_of_pairs(), 250u);
  ready_.Remove(4);
  EXPECT_EQ(ready_.longest_of_pairs(), 200u);
}

}  // namespace
}  // namespace baton
