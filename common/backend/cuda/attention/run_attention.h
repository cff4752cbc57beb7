// Attention of a run, a few rows of one sequence, on the tensor cores: a token and the guesses behind
// it, or the end of a prompt. It is that of single rows (decode_attention.h), bit for bit, but that
// the query heads of several rows are the rows of one M tile, so that keys and values are read once
// for all of them. What rows see differs in the last page, and in the first ones of a window.
#pragma once

#include <algorithm>

#include "common/backend/cuda/attention/attention_args.h"

namespace baton {

// The rows of a task, for `group` query heads of a KV head.
constexpr int RunRows(int group) { return std::max(1, kMostRunRows / group); }

// Runs the tasks of args.work. See LaunchAttention. REQUIRES: DecodeAttentionTakes the cache and
// group.
void LaunchRunAttention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace baton
