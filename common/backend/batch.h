// The input of one forward pass: rows of several sequences, each row a token.
#pragma once

#include <cstdint>
#include <vector>

#include "common/backend/input_token.h"

namespace baton {

// Rows [first_row, first_row + row_count) of a batch: consecutive tokens of one sequence. The
// first of them stands at `first_position` of the sequence; K and V of the tokens before are in the
// cache already.
struct BatchSequence {
  int first_row = 0;
  int row_count = 0;
  int first_position = 0;
  // The sequence's blocks (KvLayerView::TableIndex); borrowed for the pass. An entry is negative
  // if no row of the pass sees its tokens.
  const int32_t* block_table = nullptr;
  int table_entries = 0;  // enough for first_position + row_count tokens
};

struct Batch {
  std::vector<InputToken> tokens;        // [rows]; empty if nothing is embedded
  const int32_t* sampled_ids = nullptr;  // StepSampler::sampled_ids; null: no token is pending
  std::vector<BatchSequence> sequences;  // first_row ascending, without gaps
  std::vector<int> logits_rows;          // rows whose logits are wanted, ascending
  // If the pass is recorded, its recording serves others of as many rows whose sequences have up
  // to so many tokens together (RecordedKind); 0: about as many as the sequences of this one.
  int64_t recorded_tokens = 0;

  int rows() const {
    return sequences.empty() ? 0 : sequences.back().first_row + sequences.back().row_count;
  }
};

}  // namespace baton
