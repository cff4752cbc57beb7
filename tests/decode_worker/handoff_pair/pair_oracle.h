// What must hold of the receiver's memory at every moment of a HandoffPair.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_blocks.h"
#include "decode_worker/receive_machine.h"
#include "tests/decode_worker/handoff_pair/pair_run.h"

namespace baton {

class PairOracle {
 public:
  // `blocks`, the receiver's, outlives it.
  PairOracle(const PairRun& run, const KvBlocks& blocks) : run_(run), blocks_(blocks) {}

  void Sent(const internal::v1::KvDataHeader& header);
  // The receiver says that it has all of that message.
  void Acknowledged(uint64_t sequence_number);
  void BeginCopy(const ReceiveAction::Copy& copy);
  void EndCopy(const ReceiveAction::Copy& copy);

  // What was acknowledged is right, and no block was written that is not the sequence's.
  void CheckCovered() const;
  // All is right that is needed, what the receiver held before too.
  void CheckSequence() const;

 private:
  using Page = std::pair<int, int>;  // layer, page
  bool PageIsRight(int layer, int page) const;
  int FirstNeeded(int layer) const;

  const PairRun& run_;
  const KvBlocks& blocks_;
  std::map<uint64_t, internal::v1::KvDataHeader> sent_;
  std::set<Page> in_copy_, covered_;
};

}  // namespace baton
