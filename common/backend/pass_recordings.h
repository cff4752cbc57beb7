// Passes of few kinds that are asked for again and again, recorded.
#pragma once

#include "absl/functional/function_ref.h"

namespace baton {

// For passes of one row for each sequence, all of whose logits are wanted: two of as many rows
// differ only in what is in memory. Where it pays, a backend records the operations of such a pass
// once and replays them for the next one, which costs the host next to nothing.
//
// Belongs to one model, cache and step sampler, whose memory stays where it is. Thread rule: the
// backend's.
class PassRecordings {
 public:
  virtual ~PassRecordings() = default;

  // How many rows to give a pass of `rows` sequences, so that there are few kinds of them: at least
  // `rows`. Those behind the sequences' touch no block, and what they compute means nothing.
  virtual int PassRows(int rows) const = 0;

  // After BeginPass of a pass to be recorded: asks for its operations. True when `operations` was
  // called for that; false when what it did before was repeated instead. REQUIRES: what it asks for
  // depends on the pass's rows alone, and on what the pass brought with it.
  virtual bool Run(absl::FunctionRef<void()> operations) = 0;
};

}  // namespace baton
