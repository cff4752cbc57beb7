#include "client/plan/plan_search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"

namespace baton {
namespace {

// Totals are tried in steps of the least possible total divided by this.
constexpr int kStepsOfTotal = 50;

class Searcher {
 public:
  Searcher(const FleetSearch& search, Replay replay) : search_(search), replay_(replay) {}

  absl::StatusOr<FoundFleet> Find() {
    const std::optional<FleetSize> enough = Enough();
    if (!enough.has_value()) {
      return absl::OutOfRangeError(absl::StrFormat(
          "no fleet keeps --objective for %.2f %% of the requests: %d prefill and %d decode "
          "workers "
          "keep it for %.2f %%; loosen the objective or lower --goodput-target",
          100 * search_.good_share, largest_.prefill, largest_.decode, 100 * share_of_largest_));
    }
    // With plenty of one role, the least of the other: no fleet has fewer of either.
    FleetSize least = *enough;
    if (search_.fixed.prefill == 0) {
      least.prefill = Least(enough->prefill, [&](int n) { return Keeps({n, enough->decode}); });
    }
    if (search_.fixed.decode == 0) {
      least.decode = Least(enough->decode, [&](int n) { return Keeps({enough->prefill, n}); });
    }
    if (search_.fixed.prefill > 0 || search_.fixed.decode > 0) return Found(least, true);
    return Smallest(least, *enough);
  }

 private:
  bool Keeps(FleetSize size) {
    const auto [known, is_new] = kept_.try_emplace({size.prefill, size.decode}, false);
    if (!is_new) return known->second;
    ++replays_;
    const PlanResult result = replay_(size);
    if (size.total() >= largest_.total()) {
      largest_ = size;
      share_of_largest_ = result.good_share();
    }
    return known->second = !result.stopped && result.good_share() >= search_.good_share;
  }

  // Doubles what is not fixed.
  std::optional<FleetSize> Enough() {
    for (int workers = 1; workers <= search_.most_workers; workers *= 2) {
      const FleetSize size = {search_.fixed.prefill > 0 ? search_.fixed.prefill : workers,
                              search_.fixed.decode > 0 ? search_.fixed.decode : workers};
      if (Keeps(size)) return size;
    }
    return std::nullopt;
  }

  // The least number up to `enough`, which keeps it, that keeps it too.
  template <typename KeepsWith>
  static int Least(int enough, const KeepsWith& keeps) {
    int too_few = 0;
    while (enough - too_few > 1) {
      const int middle = too_few + (enough - too_few) / 2;
      (keeps(middle) ? enough : too_few) = middle;
    }
    return enough;
  }

  // By totals from that of `least` on, every way to divide it.
  FoundFleet Smallest(FleetSize least, FleetSize enough) {
    const int step = std::max(1, least.total() / kStepsOfTotal);
    for (int more = 0; least.total() + more <= enough.total(); more += step) {
      for (int prefill = 0; prefill <= more; prefill += step) {
        if (replays_ >= search_.most_replays) return Found(enough, false);
        const FleetSize size = {least.prefill + prefill, least.decode + more - prefill};
        if (Keeps(size)) return Found(size, step == 1 || more == 0);
      }
    }
    return Found(enough, step == 1);
  }

  FoundFleet Found(FleetSize size, bool is_smallest) const {
    return {.size = size, .replays = replays_, .is_smallest = is_smallest};
  }

  const FleetSearch search_;
  const Replay replay_;
  std::map<std::pair<int, int>, bool> kept_;  // what was tried
  int replays_ = 0;
  FleetSize largest_;
  double share_of_largest_ = 0;
};

}  // namespace

absl::StatusOr<FoundFleet> FindFleet(const FleetSearch& search, Replay replay) {
  return Searcher(search, replay).Find();
}

}  // namespace baton
