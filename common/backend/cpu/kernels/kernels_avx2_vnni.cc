#include "common/backend/cpu/kernels/kernel_table.h"
#include "common/backend/cpu/simd/simd_avx2.h"

namespace baton {

const CpuKernels kAvx2VnniKernels = MakeKernels<Avx2Vnni>();

}  // namespace baton
