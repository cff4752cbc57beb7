// Carries out what other threads ask of an engine.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "common/engine/block_ledger.h"
#include "common/engine/mailbox.h"
#include "common/engine/sequence_ending.h"
#include "common/engine/sequence_table.h"
#include "common/engine/step_pipeline.h"

namespace baton {

// Takes the contents of the mailbox. A sequence whose blocks a step in flight may touch ends only
// once the steps in flight are done.
//
// Thread rule: one thread, the engine's. Borrows what it is made with.
class EngineCommands {
 public:
  EngineCommands(int vocab_size, Mailbox& mailbox, SequenceTable& sequences, BlockLedger& ledger,
                 StepPipeline& pipeline, SequenceEnding& ending);

  // Carries out everything that was asked for since the last call, and forgets retained prefixes
  // that have expired.
  void Take();

 private:
  void Obey(SequenceId id, Mailbox::Control& control);
  void Stop(SequenceId id, int choice);
  void Release(Sequence& sequence, std::optional<int> resume_tokens);
  void Commit(Sequence& sequence, const std::vector<OutputToken>& tokens);
  absl::Status CheckFirstTokens(const Sequence& sequence,
                                const std::vector<OutputToken>& tokens) const;

  const int vocab_size_;
  Mailbox& mailbox_;
  SequenceTable& sequences_;
  BlockLedger& ledger_;
  StepPipeline& pipeline_;
  SequenceEnding& ending_;
};

}  // namespace baton
