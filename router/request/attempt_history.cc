#include "router/request/attempt_history.h"

#include <algorithm>

namespace baton {
namespace {

constexpr absl::Duration kFirstDelay = absl::Milliseconds(50);
constexpr absl::Duration kLongestDelay = absl::Seconds(2);

}  // namespace

// tests/planted_bugs: attempt_broke
AttemptHistory::Verdict AttemptHistory::Broke(const std::optional<Place>& died, bool gained,
                                              absl::Time now) {
  if (gained) {
    breaks_ = 0;
    isolate_ = false;
    opens_alone_ = false;
  }
  if (++breaks_ == 1) first_break_ = now;
  if (died.has_value()) {
    const int deaths = ++deaths_[{static_cast<int>(died->phase), died->output_index,
                                  died->computed_tokens / kPlaceTokens}];
    if (deaths >= kDeathsBeforeIsolation + kDeathsInIsolation) return Verdict::kPoison;
    int near = deaths;
    if (died->phase == Place::Phase::kDecode) {
      near = ++decode_deaths_[died->output_index / kGuessedOutputs];
    }
    const bool opening = died->phase == Place::Phase::kOpening;
    opens_alone_ |= opening && near >= kDeathsBeforeIsolation;
    isolate_ |= !opening && near >= kDeathsBeforeIsolation;
  }
  return now - first_break_ >= patience_ && breaks_ > 1 ? Verdict::kGiveUp : Verdict::kResume;
}

absl::Duration AttemptHistory::delay() const {
  // tests/planted_bugs: router_attempts_not_paced
  if (breaks_ <= 1) return absl::ZeroDuration();
  return std::min(kFirstDelay * (int64_t{1} << std::min(breaks_ - 2, 10)), kLongestDelay);
}

}  // namespace baton
