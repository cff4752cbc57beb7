#include "common/backend/cpu/kernels/kernel_table.h"
#include "common/backend/cpu/simd/simd_avx2.h"

namespace baton {

const CpuKernels kAvx2Kernels = MakeKernels<Avx2>();

}  // namespace baton
