// How a step's rows are sampled, as the device's sampler reads it (sampler.h).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"

#include "common/backend/cuda/sampler.h"
#include "common/backend/step_sampler.h"

namespace baton {

// Which slot of the device's counts has those of which sequence. As many slots as a step has rows:
// a sequence that has missed a step may lose its own, and gets another with its counts, all of
// which the host knows by then. Thread rule: one thread.
class CountsSlots {
 public:
  explicit CountsSlots(int slots) : slots_(static_cast<size_t>(slots)) {}

  struct Slot {
    int index = -1;       // -1: the row counts nothing
    bool filled = false;  // it holds the counts of all outputs before the row's
  };
  // By row, for the next step. Each slot gains that step's token.
  std::vector<Slot> Assign(absl::Span<const SamplingRow> rows);

 private:
  struct State {
    uint64_t sequence = 0;
    int next_output = 0;     // that its counts are for
    uint64_t last_step = 0;  // that used it; 0: free
  };
  size_t LeastRecentlyUsed() const;

  std::vector<State> slots_;
  std::map<uint64_t, size_t> slot_of_;  // [sequence]
  uint64_t step_ = 0;
};

struct SamplerRows {
  std::vector<SamplerRow> rows;   // [max_rows]; those that nobody asked for are greedy
  std::vector<LogitBias> biases;  // of all rows, as are the stop ids
  std::vector<int32_t> stop_ids;
  struct Fill {
    int slot = 0;
    const TokenCounts* counts = nullptr;
  };
  std::vector<Fill> fills;  // slots whose counts the device does not have
};

// REQUIRES: rows.size() <= max_rows, the slots' number.
SamplerRows PackSamplerRows(absl::Span<const SamplingRow> rows, int max_rows, CountsSlots& slots);

}  // namespace baton
