#include "common/backend/cpu/kernels/kernel_table.h"
#include "common/backend/cpu/simd/simd_avx512.h"

namespace baton {

const CpuKernels kAvx512Kernels = MakeKernels<Avx512>();

}  // namespace baton
