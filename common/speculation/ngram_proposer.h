// Proposes what followed the last tokens where they stood before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "common/speculation/proposer.h"

namespace baton {

// Finds earlier places, in prompt and output, that end with the last three tokens, and goes on from
// the one that agrees with the most tokens before; of several, the latest. It prefers the place
// that continues its last proposal, so a copied passage is followed to its end. Where fewer than
// `most` tokens follow the place, the proposal goes on with its own beginning: so it repeats a
// loop.
//
// A token costs constant time, and a sequence 4 bytes and an entry of the index for each of its
// tokens. The result depends on the tokens alone.
class NgramProposer final : public Proposer {
 public:
  std::vector<int32_t> Propose(absl::Span<const int32_t> token_ids, int most) override;

 private:
  void Index(absl::Span<const int32_t> token_ids);

  // Index of the last token of the latest n-gram with this key; -1 ends a chain.
  absl::flat_hash_map<uint64_t, int32_t> latest_;
  std::vector<int32_t> earlier_;  // by the same index: the n-gram before it with its key
  int32_t place_ = -1;            // last token of the place that the last proposal went on from
  size_t proposed_at_ = 0;        // tokens there were then
};

}  // namespace baton
