// The rows of a step in the form that the device's sampler reads (sampler.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/types/span.h"

#include "common/backend/cuda/sampling/sampler.h"
#include "common/backend/step_sampler.h"

namespace baton {

// Which slot of the device's token counts belongs to which sequence. There are as many slots as a
// step has rows at most. A sequence that misses a step may lose its slot. It then gets another,
// which has to be filled with its counts; by then the host knows all of them. A row behind a guess
// has a slot for its step alone. Thread rule: one thread.
class CountsSlots {
 public:
  explicit CountsSlots(int slots) : slots_(static_cast<size_t>(slots)) {}

  struct Slot {
    int index = -1;       // slot; -1: the row needs no counts
    bool filled = false;  // the slot holds the counts of all outputs before the row's
  };
  // The slots for the rows of the next step, by row. Each slot then gains that step's token.
  std::vector<Slot> Assign(absl::Span<const SamplingRow> rows);

 private:
  struct State {
    std::optional<uint64_t> sequence = std::nullopt;  // none: unused after its step
    int next_output = 0;     // output_index before which all outputs are counted in the slot
    uint64_t last_step = 0;  // last step that used the slot; 0: none did
  };
  size_t LeastRecentlyUsed() const;

  std::vector<State> slots_;
  std::map<uint64_t, size_t> slot_of_;  // sequence -> slot
  uint64_t step_ = 0;
};

// The lists of one step, ready for upload.
struct SamplerRows {
  std::vector<SamplerRow> rows;   // [max_rows]; rows that the step does not have are greedy
  std::vector<LogitBias> biases;  // biases of all rows
  std::vector<int32_t> stop_ids;  // stop ids of all rows
  // Counts to write into a slot; borrowed from the SamplingRow.
  struct Fill {
    int slot = 0;
    const TokenCounts* counts = nullptr;
  };
  std::vector<Fill> fills;  // slots whose counts the device does not have
};

// What the device has of the last step's lists once it has sampled them: rows of the next outputs
// (SamplerBatch::params). As long as the same sequences go on, nothing has to be uploaded. Thread rule:
// one thread.
class UploadedLists {
 public:
  // Takes the lists of the next step, which has `rows` rows. Returns whether the device has others, so
  // that the caller has to upload these.
  bool Replace(const SamplerRows& lists, size_t rows);

 private:
  std::vector<SamplerRow> rows_;  // as they are once the step is sampled
  std::vector<LogitBias> biases_;
  std::vector<int32_t> stop_ids_;
};

// Packs the rows of the next step and assigns their slots. REQUIRES: rows.size() <= max_rows, and
// `slots` has max_rows slots.
SamplerRows PackSamplerRows(absl::Span<const SamplingRow> rows, int max_rows, CountsSlots& slots);

}  // namespace baton
