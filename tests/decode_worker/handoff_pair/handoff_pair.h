// A sender and a receiver connected in one thread over a network that does what a seed says, with
// an oracle of the bytes.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tests/decode_worker/handoff_pair/pair_memory.h"
#include "tests/decode_worker/handoff_pair/pair_network.h"
#include "tests/decode_worker/handoff_pair/pair_oracle.h"
#include "tests/decode_worker/handoff_pair/pair_receiver.h"
#include "tests/decode_worker/handoff_pair/pair_run.h"
#include "tests/decode_worker/handoff_pair/pair_sender.h"

namespace baton {

// Decides what happens next.
class HandoffPair {
 public:
  explicit HandoffPair(const PairOptions& options);
  // The next attempt after `broken`, whose receiver has retained resume_tokens: its blocks, with
  // all that was written into them, are this receiver's. REQUIRES: options.cached_by_receiver is
  // that many; equal options otherwise, but for faults; blocks in the host's memory.
  HandoffPair(const PairOptions& options, const HandoffPair& broken);

  // Runs until nothing more can happen, time passing where only deadlines are left.
  void Run();

  bool committed() const { return receiver_.committed(); }
  // What a receiver that did not commit retains for the next attempt; nothing: it ended for good.
  std::optional<int> resume_tokens() const { return receiver_.resume_tokens(); }
  std::optional<absl::Status> sender_status() const { return sender_.status(); }
  const SendReport& report() const { return sender_.report(); }
  int refusals() const { return receiver_.refusals(); }
  int faults() const { return run_.faults; }
  int streams_used() const { return network_.streams_used(); }  // by data

 private:
  enum class What {
    kEngineEvent,
    kToReceiver,
    kToSender,
    kHostCopy,
    kSenderCopy,
    kSenderStaged,
    kReceiverCopy,
    kReceiverStaged
  };
  std::vector<std::pair<What, int>> Choices() const;  // what, stream
  void Step(What what, int stream);
  void CancelSome();
  bool PassTime();  // to the next deadline; false when there is none
  void Settle();
  void CheckAtRest() const;

  PairRun run_;
  PairMemory sender_memory_, receiver_memory_;
  PairOracle oracle_;
  PairNetwork network_;
  PairSender sender_;
  PairReceiver receiver_;
};

}  // namespace baton
