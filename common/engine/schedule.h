// The work of one engine step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/engine/sequence.h"

namespace baton {

// Prefill chunks end on multiples of this many tokens, the last excepted.
inline constexpr int kChunkTokens = 64;

// Consecutive tokens of one sequence to compute in a step, then guesses of the next ones: each
// guess is a row too, and each of the last token and the guesses samples a token. The sampled
// tokens count as far as the guesses agree with them.
struct ScheduledTokens {
  Sequence* sequence = nullptr;
  int first_token = 0;
  int token_count = 0;
  bool produces_token = false;  // whether the sequence's last token is among them
  // The other choices, each a sequence of its own from here on. Set when the step is enqueued that
  // samples their first tokens.
  std::vector<Sequence*> parted = {};
  std::vector<int32_t> guesses = {};  // at most kMostGuesses
  int end_token() const { return first_token + token_count; }
  int guess_count() const { return static_cast<int>(guesses.size()); }
  int row_count() const { return token_count + guess_count(); }
  // Those of its tokens whose rows give log probabilities, each of the token behind it, begin here.
  int first_scored() const { return std::max(first_token, sequence->tokens.scored - 1); }
  int scored_count() const {
    // tests/planted_bugs: prompt_logprob_lost_at_a_chunk_border
    return std::max(0, std::min(end_token(), sequence->request.prompt_length - 1) - first_scored());
  }
};

// Block `to` gets the bytes of block `from`.
struct BlockCopy {
  int32_t from = 0;
  int32_t to = 0;
};

// A pointer in it holds until SequenceTable::Remove of its sequence, or until the last step that
// has the sequence is done.
struct Schedule {
  std::vector<Sequence*> preempted;
  std::vector<Sequence*> admitted;  // sequences whose blocks were reserved for the first time
  std::vector<BlockCopy> copies;    // to be made before the batch is computed
  std::vector<ScheduledTokens> batch;
};

}  // namespace baton
