// The kernels of each instruction set, and the selection of one set at run time.
//
// These kernels are written with registers in mind. Loops that the compiler vectorises by itself
// use RunOn (isa.h).
//
// A kernel is a template over a Simd type (described in simd_portable.h), in a header ..._kernel.h.
// Each of the sources kernels_*.cc is compiled for its instruction set and instantiates all
// kernels. No other source is compiled for one: through the linker's selection, an inline function
// that two sources share could otherwise reach a CPU that cannot run it. Therefore kernels call
// only templates over their Simd type and always_inline functions (tests/kernel_symbols_test.py).
#pragma once

#include "common/backend/cpu/attention/attention.h"
#include "common/backend/cpu/attention/rope.h"
#include "common/backend/cpu/peaks.h"
#include "common/backend/cpu/product/product.h"
#include "common/backend/cpu/product/product_input.h"
#include "common/backend/cpu/simd/isa.h"

namespace baton {

struct CpuKernels {
  // Prepares rows [begin, end).
  void (*prepare_input)(const ProductInputArgs& args, int begin, int end);
  // Computes the outputs of groups [begin, end), each of 16 outputs.
  void (*product)(const ProductArgs& args, int begin, int end);
  // Rotates and stores rows [begin, end).
  void (*rotate_and_append)(const RopeArgs& args, int begin, int end);
  void (*attend_tile)(const TileAttentionArgs& args);
  void (*attend_row_segment)(const RowAttentionArgs& args);
  // Merges the first `segments` segments; args.segment is not read.
  void (*merge_row_segments)(const RowAttentionArgs& args, int segments);
  PeakLoops peak;
};

extern const CpuKernels kPortableKernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx2VnniKernels;
extern const CpuKernels kAvx512Kernels;

// The kernels for `isa`. REQUIRES: CpuHas(isa).
const CpuKernels& KernelsFor(CpuIsa isa);

}  // namespace baton
