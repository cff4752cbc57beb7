// The input of one forward pass: rows of several sequences, each row a token.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace baton {

// Consecutive rows of one sequence: its tokens [first_position, first_position + row_count). K and
// V of the tokens before are in the cache already.
struct BatchSequence {
  int first_row = 0;
  int row_count = 0;
  int first_position = 0;
  // [blocks for first_position + row_count tokens]; borrowed for the pass.
  absl::Span<const int32_t> block_table;
};

struct Batch {
  // [rows]. A token_id below 0 stands for sampled_ids[~token_id] when the pass is computed.
  std::vector<int32_t> token_ids;
  const int32_t* sampled_ids = nullptr;  // StepSampler::sampled_ids
  std::vector<BatchSequence> sequences;  // first_row ascending, without gaps
  std::vector<int> logits_rows;          // rows whose logits are wanted, ascending
  int rows() const { return static_cast<int>(token_ids.size()); }
};

}  // namespace baton
