// Reports to the callers of an engine's sequences that the engine still has them.
#pragma once

#include "absl/time/time.h"

#include "common/engine/sequence_table.h"

namespace baton {

// Posts SequenceAlive for every sequence in the table, whatever the sequence waits for. A sequence
// that the engine has lost gets none.
//
// Thread rule: one thread, the engine's. Borrows the table.
class LifeSigns {
 public:
  // The first signs come `interval` after `now`.
  LifeSigns(absl::Duration interval, absl::Time now, SequenceTable& sequences)
      : interval_(interval), next_(now + interval), sequences_(sequences) {}

  // Posts the event once for each sequence if `interval` has passed since the last time. Called
  // between steps, and at each layer of a step.
  void Give(absl::Time now);

 private:
  const absl::Duration interval_;
  absl::Time next_;
  SequenceTable& sequences_;
};

}  // namespace baton
