#include "common/backend/cpu/kernels/kernel_table.h"
#include "common/backend/cpu/simd/simd_portable.h"

namespace baton {

const CpuKernels kPortableKernels = MakeKernels<Portable>();

}  // namespace baton
