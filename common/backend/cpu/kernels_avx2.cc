#include "common/backend/cpu/kernel_table.h"
#include "common/backend/cpu/simd_avx2.h"

namespace baton {

const CpuKernels kAvx2Kernels = MakeKernels<Avx2>();

}  // namespace baton
