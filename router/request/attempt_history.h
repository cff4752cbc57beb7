// Counts how often one request has lost the workers that computed it, and decides whether it is
// tried again, tried alone, or ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "absl/time/time.h"

namespace baton {

// A value; not thread-safe.
//
// A *place* is the progress of the request when its worker died. After two deaths at one place the
// next attempts run alone, so that a death by other work does not count against the request. After
// two more deaths at that place, alone, the request counts as the cause. Deaths at different places
// do not add up.
//
// A worker that dies before its first message may have died of opening the request, or of other
// work while the request waited there. After two such deaths at one output the next attempts open
// alone: their workers get no other work from this router until the prompt is computed.
class AttemptHistory {
 public:
  struct Place {
    enum class Phase { kOpening, kPrefill, kDecode };
    Phase phase = Phase::kPrefill;
    size_t output_index = 0;       // the output that would have been computed next
    uint32_t computed_tokens = 0;  // in a prefill, of the prompt; compared in steps of kPlaceTokens
  };
  // The tokens of a step depend on speed and load, so two deaths by the same cause are not always
  // reported at exactly the same token.
  static constexpr uint32_t kPlaceTokens = 512;
  // The most outputs of a step: one, and guesses of the ones that follow it. The router does not
  // see which of them kills the worker, and each attempt dies a little later than the previous one.
  // So two deaths within this many outputs isolate too. An isolated attempt does not guess and dies
  // at the exact place.
  static constexpr size_t kGuessedOutputs = 16;
  static constexpr int kDeathsBeforeIsolation = 2;
  static constexpr int kDeathsInIsolation = 2;

  enum class Verdict {
    kResume,
    kGiveUp,  // nothing was gained for `patience`
    kPoison,
  };
  explicit AttemptHistory(absl::Duration patience) : patience_(patience) {}

  // An attempt broke. `died` is set if its worker died while it opened or computed it. `gained`:
  // the attempt came to decode. The one token that comes with a prefill is no gain: it says nothing
  // about the hand-off after it.
  Verdict Broke(const std::optional<Place>& died, bool gained, absl::Time now);

  // Whether the next attempt runs alone, and without guesses.
  bool isolate() const { return isolate_; }
  // Whether the next attempt opens alone.
  bool opens_alone() const { return opens_alone_; }
  // Returns the delay before the next attempt: none before the first; then longer after each
  // attempt that gained nothing, up to two seconds.
  absl::Duration delay() const;

 private:
  using Key = std::tuple<int, size_t, uint32_t>;

  const absl::Duration patience_;
  std::map<Key, int> deaths_;
  std::map<size_t, int> decode_deaths_;  // [output index / kGuessedOutputs]
  bool isolate_ = false;
  bool opens_alone_ = false;
  int breaks_ = 0;  // breaks since something was gained
  absl::Time first_break_;
};

}  // namespace baton
