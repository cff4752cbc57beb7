#include "common/backend/cpu/kernel_table.h"
#include "common/backend/cpu/simd_portable.h"

namespace baton {

const CpuKernels kPortableKernels = MakeKernels<Portable>();

}  // namespace baton
