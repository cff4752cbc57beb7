// What the parts of a HandoffPair share: the options of the run, chance and time.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "absl/time/time.h"

namespace baton {

struct PairOptions {
  uint64_t seed = 0;
  int tokens = 100;
  int cached_by_sender = 0;       // prefix whose pages the sender computed earlier
  int cached_by_receiver = 0;     // prefix that is not sent
  std::vector<int> windows = {};  // [layers] of the attention; empty: none has one
  int sender_block_size = 16;
  int receiver_block_size = 32;
  size_t max_payload_bytes = 1500;
  size_t min_payload_bytes = 600;
  uint64_t window_bytes = 6000;
  int streams = 1;
  // Chances of a fault, in percent: of each data message, but `cut` and `cancel`, which are of each
  // step.
  int duplicate = 0;
  int reorder = 0;
  int corrupt = 0;
  int drop = 0;
  int cut = 0;
  int cut_joined = 0;  // cuts of streams that joined
  int cancel_sender = 0;
  int cancel_receiver = 0;
  bool finish_at_first_token = false;
  // Pages that the staging of a side holds; 0: its blocks are in the host's memory.
  int sender_staging_pages = 0;
  int receiver_staging_pages = 0;
};

struct PairRun {
  explicit PairRun(const PairOptions& its_options)
      : options(its_options), random(its_options.seed) {}

  const PairOptions options;
  std::mt19937_64 random;
  absl::Time now = absl::UnixEpoch();
  int faults = 0;  // faults that struck

  bool Chance(int percent) { return static_cast<int>(random() % 100) < percent; }
  // Whether a fault strikes that has this chance.
  bool Strikes(int percent) {
    const bool strikes = Chance(percent);
    faults += strikes ? 1 : 0;
    return strikes;
  }
};

}  // namespace baton
