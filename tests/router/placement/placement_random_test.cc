// Random fleets: whatever is chosen may be chosen, and what is refused could not be served.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "router/placement/placement.h"
#include "tests/router/placement/idle_worker.h"

namespace baton {
namespace {

using Outcome = Placement::Outcome;

// One request and the workers that are there for it.
class RandomFleet {
 public:
  explicit RandomFleet(std::mt19937& random) : random_(random) {
    uint64_t id = 1;
    for (auto* side : {&prefill_, &decode_}) {
      for (uint32_t count = UpTo(4); count > 0; --count) AddWorker(*side, id++);
    }
    needs_.decode = UpTo(5) > 0;
    needs_.avoid = {1 + UpTo(8)};
    needs_.prefer_decode = UpTo(8);
    options_ = {.policy = kPolicies[UpTo(2)],
                .disaggregation = static_cast<Disaggregation>(UpTo(3)),
                .local_below_tokens = UpTo(20)};
    turn_ = random_();
  }

  Placement Choose() const {
    const auto link = [](uint64_t prefill, uint64_t decode) {
      return LinkEstimate{.bytes_per_second = 1e8,
                          .exposed = absl::Milliseconds(prefill * decode),
                          .bad = (prefill + decode) % 5 == 0};
    };
    return Place(needs_, prefill_, decode_, options_, turn_, link);
  }

  // Whether some worker or pair could serve the request some time.
  bool CanServe() const {
    bool pair = false, alone = false, prefill_alone = false;
    for (const WorkerSnapshot& x : decode_) {
      alone |= Fits(x);
      for (const WorkerSnapshot& y : prefill_) {
        pair |= Fits(x) && Fits(y) && x.identity == y.identity;
      }
    }
    for (const WorkerSnapshot& y : prefill_) prefill_alone |= Fits(y);
    const Disaggregation mode = options_.disaggregation;
    bool possible = mode == Disaggregation::kAlways ? pair : alone;
    if (!needs_.decode && mode != Disaggregation::kNever) possible |= prefill_alone;
    return possible;
  }

  void CheckChosen(const Placement& placement) const {
    ASSERT_TRUE(placement.prefill.has_value() || placement.decode.has_value());
    const WorkerSnapshot* p = placement.prefill ? &prefill_[*placement.prefill] : nullptr;
    const WorkerSnapshot* d = placement.decode ? &decode_[*placement.decode] : nullptr;
    if (p != nullptr) {
      EXPECT_TRUE(Fits(*p) && HasRoomForPrompt(*p));
      EXPECT_NE(options_.disaggregation, Disaggregation::kNever);
    } else {
      EXPECT_TRUE(HasRoomForPrompt(*d));
      EXPECT_TRUE(options_.disaggregation != Disaggregation::kAlways);
    }
    if (d != nullptr) {
      EXPECT_TRUE(Fits(*d) && d->takes_requests);
    } else {
      EXPECT_FALSE(needs_.decode);
    }
    if (p != nullptr && d != nullptr) {
      EXPECT_EQ(p->identity, d->identity);
    }
  }

 private:
  uint32_t UpTo(unsigned n) { return static_cast<uint32_t>(random_() % (n + 1)); }
  bool Fits(const WorkerSnapshot& worker) const {
    return worker.max_model_len >= needs_.max_total_tokens;
  }
  void AddWorker(std::vector<WorkerSnapshot>& side, uint64_t id) {
    WorkerSnapshot& worker = side.emplace_back(IdleWorker(id));
    worker.identity = UpTo(3) == 0 ? "other" : "m";
    worker.max_model_len = 15 + UpTo(20);
    worker.free_blocks = UpTo(5);
    worker.queued_tokens = UpTo(300);
    worker.reported_sequences = UpTo(10);
    worker.own_prompts = UpTo(2);
    worker.own_sequences = worker.own_prompts + UpTo(3);
    worker.cached_tokens = UpTo(15);
    worker.takes_requests = UpTo(9) > 0;
    worker.prefill_tokens_per_second = UpTo(1) * UpTo(5000);
  }

  std::mt19937& random_;
  std::vector<WorkerSnapshot> prefill_, decode_;
  WorkerNeeds needs_{.prompt_tokens = 15, .max_total_tokens = 25};
  PlacementOptions options_;
  uint64_t turn_ = 0;
};

TEST(PlacementRandom, OnlyEverChoosesWhatCanServeTheRequest) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE(round);
    const RandomFleet fleet(random);
    const Placement placement = fleet.Choose();
    const Placement again = fleet.Choose();
    EXPECT_EQ(placement.prefill, again.prefill);
    EXPECT_EQ(placement.decode, again.decode);
    EXPECT_EQ(placement.outcome != Outcome::kNoneIsReady, fleet.CanServe());
    if (placement.outcome != Outcome::kPlaced) continue;
    ASSERT_NO_FATAL_FAILURE(fleet.CheckChosen(placement));
  }
}

}  // namespace

}  // namespace baton
