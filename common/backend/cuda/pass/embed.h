// From token ids to rows of the embedding table.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/input_token.h"
#include "common/backend/tensor.h"

namespace baton {

// token_ids[i] = the id of tokens[i], which is looked up in `sampled_ids` if it is pending.
// `tokens` [count], `token_ids` [count] and `sampled_ids` are in device memory.
void LaunchTokenIds(const InputToken* tokens, const int32_t* sampled_ids, int count,
                    int32_t* token_ids, cudaStream_t stream);

// out[r] = row token_ids[r] of the table, widened. `token_ids` [out.rows] is in device memory, each
// in [0, table.rows); `out` [rows, table.columns].
void LaunchEmbed(const CudaMatrix& table, const int32_t* token_ids, Tensor out,
                 cudaStream_t stream);

}  // namespace baton
