// The audit of what a simulated decode worker receives: the real chooser, quarantine and sources of
// blocks. What an engine recomputes is told from what was forged by its bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "decode_worker/audit_chooser.h"
#include "decode_worker/quarantine.h"
#include "tests/simulation/decode_worker/decode_call_table.h"
#include "tests/simulation/worker_core.h"

namespace baton {

class DecodeAudit {
 public:
  // `distrust`: all KV that came from this source is wrong.
  DecodeAudit(Sim& sim, WorkerCore& core, DecodeBlocks& blocks,
              std::function<void(const std::string& source)> distrust);

  void Boot();

  // The call's push is about to be committed. Whether it may be.
  absl::Status CheckTrusted(const SimAttempt& attempt) const;
  // It was, and its blocks are in the prefix cache. By chance a block of it is audited, one push at
  // a time.
  void Begin(const SimDecodeCall& call);
  // I7: nothing of a quarantined pusher is committed.
  void CheckCommit(const SimAttempt& attempt) const;

 private:
  void CheckAuditable(int block, int tokens) const;
  // Who is to blame for the first block that is wrong, up to `block`; none: that one is right.
  std::optional<std::string> Compare(const SimDecodeCall& call, int block) const;
  void Judge(const std::string& source);

  Sim& sim_;
  WorkerCore& core_;
  DecodeBlocks& blocks_;
  const std::function<void(const std::string&)> distrust_;
  AuditChooser chooser_;
  std::optional<Quarantine> quarantine_;
  std::set<std::string> found_;  // as the quarantine has to have it
  bool under_way_ = false;
};

}  // namespace baton
