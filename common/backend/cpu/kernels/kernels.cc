#include "common/backend/cpu/kernels/kernels.h"

namespace baton {

const CpuKernels& KernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return kPortableKernels;
    case CpuIsa::kAvx2:
      return kAvx2Kernels;
    case CpuIsa::kAvx2Vnni:
      return kAvx2VnniKernels;
    case CpuIsa::kAvx512:
      return kAvx512Kernels;
  }
  return kPortableKernels;
}

}  // namespace baton
