// Token ids to rows of the embedding table.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/operands.h"
#include "common/backend/tensor.h"

namespace baton {

// out[r] = the table's row token_ids[r], widened. `token_ids` [out.rows] in device memory, each in
// [0, table.rows); `out` [rows, table.columns].
// token_ids[i] = choices[~token_ids[i]] where it is below 0. `token_ids` [count].
void LaunchTakeChoices(const int32_t* choices, int count, int32_t* token_ids, cudaStream_t stream);

void LaunchEmbed(const CudaMatrix& table, const int32_t* token_ids, Tensor out,
                 cudaStream_t stream);

}  // namespace baton
