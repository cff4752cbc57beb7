// Carries out what other threads ask of an engine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/engine/block_auditor.h"
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
  struct Parts {
    Mailbox& mailbox;
    SequenceTable& sequences;
    BlockLedger& ledger;
    StepPipeline& pipeline;
    SequenceEnding& ending;
    BlockAuditor& auditor;
  };
  // `next_id` draws the ids of hidden sequences.
  EngineCommands(int vocab_size, std::function<SequenceId()> next_id, const Parts& parts);

  // Carries out everything that was asked for since the last call, and forgets retained prefixes
  // that have expired.
  void Take();

 private:
  void Obey(SequenceId id, Mailbox::Control& control);
  void Stop(SequenceId id, int choice);
  void Release(Sequence& sequence, std::optional<int> resume_tokens);
  void Commit(Sequence& sequence, const std::vector<OutputToken>& tokens,
              std::optional<AuditOrder> audit);
  void Distrust(const std::string& source);
  bool MayRestOn(const Sequence& sequence, const std::string& source) const;
  absl::Status CheckFirstTokens(const Sequence& sequence,
                                const std::vector<OutputToken>& tokens) const;

  const int vocab_size_;
  const std::function<SequenceId()> next_id_;
  Mailbox& mailbox_;
  SequenceTable& sequences_;
  BlockLedger& ledger_;
  StepPipeline& pipeline_;
  SequenceEnding& ending_;
  BlockAuditor& auditor_;
};

}  // namespace baton
