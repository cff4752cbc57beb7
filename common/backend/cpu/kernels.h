// The kernels of each instruction set, and the choice among them at run time.
//
// These are the kernels that are written with registers in mind; loops that the compiler vectorises
// by itself use RunOn (isa.h).
//
// A kernel is a template over a Simd type (simd_portable.h says what that is), in a header
// ..._kernel.h. The sources kernels_*.cc are each compiled for their instruction set and
// instantiate all of them. Nothing else is compiled so: an inline function that two sources share
// would otherwise reach, through the linker's choice, a CPU that cannot run it. Therefore kernels
// call only templates over their Simd type and always_inline functions
// (tests/kernel_symbols_test.py).
#pragma once

#include "common/backend/cpu/attention.h"
#include "common/backend/cpu/isa.h"
#include "common/backend/cpu/peaks.h"
#include "common/backend/cpu/product.h"
#include "common/backend/cpu/product_input.h"
#include "common/backend/cpu/rope.h"

namespace baton {

struct CpuKernels {
  // Rows [begin, end).
  void (*prepare_input)(const ProductInputArgs& args, int begin, int end);
  // Groups [begin, end) of 16 outputs.
  void (*product)(const ProductArgs& args, int begin, int end);
  // Rows [begin, end).
  void (*rotate_and_append)(const RopeArgs& args, int begin, int end);
  void (*attend_tile)(const TileAttentionArgs& args);
  void (*attend_row_segment)(const RowAttentionArgs& args);
  // Of the first `segments` segments; the args' own is not read.
  void (*merge_row_segments)(const RowAttentionArgs& args, int segments);
  PeakLoops peak;
};

extern const CpuKernels kPortableKernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx2VnniKernels;
extern const CpuKernels kAvx512Kernels;

// REQUIRES: CpuHas(isa).
const CpuKernels& KernelsFor(CpuIsa isa);

}  // namespace baton
