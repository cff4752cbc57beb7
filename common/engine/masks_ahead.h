// Makes the masks that a step cannot make while it runs.
#pragma once

#include <functional>

#include "absl/time/time.h"

#include "common/engine/mask_thread.h"
#include "common/engine/sequence.h"
#include "common/engine/sequence_table.h"

namespace baton {

// These are the masks of slow forms, on the mask thread, and those of outputs that come with a chunk:
// a chunk's pages go to peers and into the prefix cache, so it is not computed anew for want of a mask,
// as a decode's row is.
//
// A mask that a form fails to give allows nothing, and so its sequence ends with the step that has it.
//
// Thread rule: one thread, the engine's. Borrows the sequences.
class MasksAhead {
 public:
  // `patience`: CPU time that a form may take on the engine's thread for each output. A form that
  // takes more is slow. One call may take ten times as much, since those that guess or find forced
  // text serve many outputs. Zero: all forms are slow. `on_done`: a mask is there for Prepare to take;
  // called on another thread.
  MasksAhead(absl::Duration patience, SequenceTable& sequences, std::function<void()> on_done)
      : patience_(patience), sequences_(sequences), thread_(std::move(on_done)) {}

  // Before each choice of a batch.
  void Prepare();
  // Sequences whose masks the mask thread has yet to make.
  int under_way() const { return under_way_; }

 private:
  void Prepare(Sequence& sequence);
  absl::Duration LeftFor(const SequenceForm& form) const;

  const absl::Duration patience_;
  SequenceTable& sequences_;
  MaskThread thread_;
  int under_way_ = 0;
};

}  // namespace baton
