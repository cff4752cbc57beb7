// Where guesses of the next tokens of a sequence come from.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace baton {

// The most tokens that are guessed at once. No more than a KV page has tokens, so that the rows of
// a guess begin at most one block.
inline constexpr int kMostGuesses = 16;

// Proposes the next tokens of one sequence. What it proposes is a guess: nothing but speed depends
// on it. Thread rule: one thread.
class Proposer {
 public:
  virtual ~Proposer() = default;

  // At most `most` tokens that may follow `token_ids`, all tokens of the sequence so far. REQUIRES:
  // they begin with those of the last call.
  virtual std::vector<int32_t> Propose(absl::Span<const int32_t> token_ids, int most) = 0;
};

}  // namespace baton
