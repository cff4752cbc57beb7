// Twelve machines under a load that moves from prompts to answers, divided as the planner advises,
// beside the best fixed division of each part of the load.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "router/planner/planner.h"
#include "tests/router/planner/played_fleet.h"

namespace baton {
namespace {

constexpr uint32_t kMachines = 12;
constexpr uint64_t kSeed = 7;

// About two thirds of what twelve machines can do, with 1 : 4, 1 : 1 and 12 : 1 parts of the work.
std::vector<PlayedPart> Parts() {
  return {{.seconds = 600, .requests_per_second = 16, .prompt_tokens = 4000, .output_tokens = 100},
          {.seconds = 600, .requests_per_second = 16, .prompt_tokens = 2000, .output_tokens = 250},
          {.seconds = 600, .requests_per_second = 11, .prompt_tokens = 500, .output_tokens = 600}};
}

double Share(const PlayedGoodput& goodput) { return double{1} * goodput.good / goodput.all; }

struct Best {
  uint32_t prefill = 0;
  double share = -1;
};

// Begins with the division that it is given: one that serves all requests is not beaten.
Best BestDivision(const PlayedPart& part, uint64_t seed, uint32_t begin) {
  Best best;
  for (uint32_t i = 0; i + 1 < kMachines && best.share < 0.999; ++i) {
    const uint32_t prefill = 1 + (begin - 1 + i) % (kMachines - 1);
    PlayedFleet fleet(prefill, kMachines - prefill);
    const PlayedGoodput& goodput = fleet.Play(part, seed);
    fleet.Finish();
    if (Share(goodput) > best.share) best = {.prefill = prefill, .share = Share(goodput)};
  }
  return best;
}

// The goodput of each part, and that of its best fixed division, with machines that follow the
// advice.
void ExpectNearlyTheBest(const std::vector<PlayedPart>& parts, double part_of_the_best) {
  PlayedFleet fleet(kMachines / 2, kMachines / 2);
  Planner planner({.workers = kMachines});
  uint32_t prefill = kMachines / 2, changes = 0;
  std::vector<const PlayedGoodput*> goodputs;
  std::vector<uint32_t> divisions;
  for (size_t i = 0; i < parts.size(); ++i) {
    goodputs.push_back(&fleet.Play(parts[i], kSeed + i, [&] {
      const Advice advice = planner.Take(fleet.load(), fleet.steps(), fleet.now());
      if (advice.prefill.balanced == 0 || advice.prefill.balanced == prefill) return;
      prefill = advice.prefill.balanced;
      ++changes;
      fleet.SetPrefill(prefill);
    }));
    divisions.push_back(prefill);
  }
  fleet.Finish();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Best best = BestDivision(parts[i], kSeed + i, divisions[i]);
    const double share = Share(*goodputs[i]);
    std::printf(
        "part %zu: %u:%u at its end, %.3f good; best fixed division %u:%u, %.3f good: %.3f\n",
        i + 1, divisions[i], kMachines - divisions[i], share, best.prefill,
        kMachines - best.prefill, best.share, share / best.share);
    EXPECT_GT(best.share, 0.95) << "the load is more than any division can bear";
    EXPECT_GE(share, part_of_the_best * best.share) << "part " << i + 1;
  }
  std::printf("%u changes\n", changes);
  EXPECT_LE(changes, 4 * parts.size()) << "machines that start do nothing";
}

TEST(Scaling, AsAdvisedKeepsNineTenthsOfTheGoodputOfTheBestFixedDivisionOfEachPart) {
  ExpectNearlyTheBest(Parts(), 0.9);
}

TEST(Scaling, OnTheWayBackTheLongAnswersHaveToEndFirst) {
  std::vector<PlayedPart> parts = Parts();
  std::reverse(parts.begin(), parts.end());
  ExpectNearlyTheBest(parts, 0.85);
}

TEST(Scaling, NoFixedDivisionServesAllParts) {
  std::vector<PlayedPart> parts = Parts();
  for (PlayedPart& part : parts) part.seconds = 300;
  for (uint32_t prefill = 1; prefill < kMachines; ++prefill) {
    double least = 1;
    for (size_t i = 0; i < parts.size() && least >= 0.9; i += parts.size() - 1) {
      PlayedFleet fleet(prefill, kMachines - prefill);
      const PlayedGoodput& goodput = fleet.Play(parts[i], kSeed + i);
      fleet.Finish();
      least = std::min(least, Share(goodput));
    }
    EXPECT_LT(least, 0.9) << prefill << " prefill workers: then nothing need be advised";
  }
}

}  // namespace
}  // namespace baton
