#include "common/engine/life_signs.h"

#include "common/engine/sequence_ending.h"

namespace baton {

void LifeSigns::Give(absl::Time now) {
  if (now < next_) return;
  next_ = now + interval_;
  SequenceId told = 0;  // ids ascend, and none is 0
  for (const Sequence* sequence : sequences_.All()) {
    // tests/planted_bugs: waiting_sequence_gives_no_sign
    if (sequence->id == told) continue;  // another choice of the same sequence
    told = sequence->id;
    Tell(*sequence, SequenceAlive{});
  }
}

}  // namespace baton
