// Recordings of passes that an engine repeats: passes of few kinds, asked for again and again.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace baton {

// A kind of passes: those of so many rows, padding included, whose sequences have about so many
// tokens or fewer, all together.
struct RecordedKind {
  int rows = 0;
  int64_t tokens = 0;
};

// For passes of one row for each sequence, all of whose logits are wanted. Two such passes of as
// many rows differ only in what lies in memory. Where it pays, a backend records the operations of
// such a pass once and replays them for the next one, which costs the host next to nothing.
//
// One object serves one model, cache and step sampler, whose memory must not move. Thread rule:
// the backend's.
class PassRecordings {
 public:
  virtual ~PassRecordings() = default;

  // The number of rows to give a pass of `rows` sequences, at least `rows`, so that there are few
  // kinds of passes. The rows behind those of the sequences touch no block; their results mean
  // nothing.
  virtual int PassRows(int rows) const = 0;

  // Returns the kinds of passes with at most `most_sequences` sequences, of at most `most_tokens`
  // tokens each and `all_tokens` tokens together, as far as there is room for their recordings.
  // Kinds with short sequences come first, among these the ones with few rows. Empty if nothing is
  // recorded.
  virtual std::vector<RecordedKind> Kinds(int most_sequences, int most_tokens,
                                          int64_t all_tokens) const = 0;

  // REQUIRES: BeginPass of a pass with `recorded` came before. Returns true when it called
  // `operations` to ask for the pass's operations, false when it replayed those recorded before.
  // REQUIRES: what `operations` asks for depends only on the number of rows and on the arrays that
  // the pass brought with it.
  virtual bool Run(absl::FunctionRef<void()> operations) = 0;
};

}  // namespace baton
