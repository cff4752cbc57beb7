// Lays out quantised rows on the device, if the memory is quick enough that this takes no longer
// than the copy of the file's bytes before it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/device/operands.h"

namespace baton {

// Writes `count` rows of a CudaMatrix to `rows` [count, CudaRowBytes], padding included: those that
// a GGUF file has at `file`, one behind the other without gaps. Both are in device memory, `rows`
// at a multiple of 16 bytes. REQUIRES: `element` is quantised; `columns` are whole blocks; count > 0.
void LaunchPackRows(CudaElement element, const uint8_t* file, size_t count, int columns,
                    uint8_t* rows, cudaStream_t stream);

}  // namespace baton
