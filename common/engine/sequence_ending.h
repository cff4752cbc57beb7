// Ends sequences of an engine and reports their last events.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/engine/block_ledger.h"
#include "common/engine/mailbox.h"
#include "common/engine/sequence.h"
#include "common/engine/sequence_table.h"

namespace baton {

// Reports an event of the sequence.
inline void Tell(const Sequence& sequence, const SequenceEvent& event) {
  if (sequence.request.on_event) sequence.request.on_event(event);
}

// Decides whether a token is a sequence's last one, and ends sequences: removes what has ended,
// then reports the last event of each of its choices. A kPrefillOnly sequence that finishes or
// fails is held until it is released, because a peer may read its blocks.
//
// Thread rule: one thread, the engine's. Borrows what it is made with.
class SequenceEnding {
 public:
  struct Rules {
    std::vector<int32_t> end_of_generation_ids = {};  // ascending
    int max_model_len = 0;                            // tokens
  };
  SequenceEnding(Rules rules, SequenceTable& sequences, BlockLedger& ledger, Mailbox& mailbox);

  // Why the sequence ends with `token`, an output of it; kNone if it goes on.
  FinishReason ReasonOf(const Sequence& sequence, const OutputToken& token) const;

  // The last token was produced. Destroys the sequence unless it is held.
  void Finish(Sequence& sequence);
  // Fails the sequence: its results are wrong or missing. Destroys it unless it is held.
  void Fail(Sequence& sequence, absl::Status status);
  // Ends the sequence as requested, and destroys it.
  void Release(Sequence& sequence);
  // One of several choices that have not parted yet was asked to end.
  void ReleaseChoice(Sequence& sequence, int choice);

 private:
  void RemoveAndTell(Sequence& sequence, SequenceEvent last);

  const Rules rules_;
  SequenceTable& sequences_;
  BlockLedger& ledger_;
  Mailbox& mailbox_;
};

}  // namespace baton
