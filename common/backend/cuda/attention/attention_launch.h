// From the description of an attention to the arguments of its kernels.
#pragma once

#include "common/backend/cuda/attention/attention_args.h"

namespace baton {

// The arguments of LaunchAttention as the kernels take them.
AttentionArgs AttentionArgsFor(const CudaPass& pass, const AttentionWork& work,
                               const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                               Tensor out, const CudaAttentionScratch& scratch);

}  // namespace baton
