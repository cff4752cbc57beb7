// The form that a sequence's outputs are held to, and the mask of its next output where that is made
// before the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/grammar/grammar_state.h"

namespace baton {

struct MaskJob;

// A step makes the mask of an output while the model computes, since most take far less than a step.
// A form that takes longer is *slow* from then on: each of its masks is made on the mask thread, and
// its sequence sits steps out until the mask is there (MasksAhead). All choices of a request share
// that, since they share the form.
//
// Thread rule: the engine's thread only. A copy is another choice's: REQUIRES that no job is under way.
struct SequenceForm {
  explicit SequenceForm(GrammarState first)
      : state(std::move(first)), accepted_before(state.accepted()), spent_before(state.spent()) {}

  // An output of the sequence. An error names the token if it may not come. Where the form is slow or
  // has failed, the token stands, as it was sampled under a mask; the next mask reports the fault.
  absl::Status Accept(int32_t token);
  bool is_slow() const { return *slow; }
  // A mask of the vocabulary's size that allows nothing.
  std::vector<uint32_t> EmptyMask() const;

  GrammarState state;           // behind the outputs; if it is slow, behind those of the last mask
  size_t accepted_before;       // outputs before this engine had the sequence
  absl::Duration spent_before;  // and what the form had spent then
  std::vector<uint32_t> mask = {};  // [MaskWords(vocab_size)]; empty: the step makes it
  absl::Status why;                 // OK, or why `mask` allows nothing
  std::shared_ptr<bool> slow = std::make_shared<bool>(false);
  std::shared_ptr<MaskJob> job = {};  // it has the state; null: none is under way
  // The step in flight got no mask in time: what it computed for the next output does not count.
  bool missed = false;
};

}  // namespace baton
