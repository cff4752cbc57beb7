// How often one request has lost the workers that computed it, and what follows from that: try
// again, alone, or not at all.
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
// A *place* is where the request stood when its worker died. After two deaths at one place the next
// attempts run alone, so that a death that other work causes does not count against them. After two
// more there, alone, the request is what kills the workers. Deaths elsewhere do not add up.
//
// A worker that dies before its first word may have died of opening the request, or of what it
// computed while the request waited there. After two such deaths at one output the next attempts
// open alone: their workers get nothing else from this router until the prompt is computed.
class AttemptHistory {
 public:
  struct Place {
    enum class Phase { kOpening, kPrefill, kDecode };
    Phase phase = Phase::kPrefill;
    size_t output_index = 0;       // the output that would have been computed next
    uint32_t computed_tokens = 0;  // in a prefill, of the prompt; compared in steps of kPlaceTokens
  };
  // What a step computes is cut by speed and load: two deaths in one step are not always reported
  // at the very same token.
  static constexpr uint32_t kPlaceTokens = 512;
  // A step computes an output, and guesses of as many that follow it. Which of them kills the
  // worker is not seen, and each attempt dies a little later than the one before. So two deaths
  // within as many outputs isolate too, and an isolated attempt does not guess: it dies at the very
  // place.
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

  // The next attempt runs alone, and without guesses.
  bool isolate() const { return isolate_; }
  // The next attempt opens alone.
  bool opens_alone() const { return opens_alone_; }
  // How long the next attempt waits. The first does not; the others wait longer each time that
  // nothing was gained, up to two seconds.
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
