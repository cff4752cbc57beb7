// In place of the toolkit's header of this name: kernels and host code that call CUDA become plain
// C++ (tests/support/cuda_shim/fibers.h).
#pragma once

#include "tests/support/cuda_shim/device_functions.h"
#include "tests/support/cuda_shim/host_functions.h"
#include "tests/support/cuda_shim/vector_types.h"
