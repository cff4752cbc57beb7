#include <algorithm>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/formats/group_format.h"
#include "common/backend/cuda/product/library/dequantise.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

// A thread takes eight columns at a time, which are 16 bytes of F16 or BF16, and loads those of two
// turns together: the codes are few bytes, and more of them are then in flight.
constexpr int kTurns = 2;
// The columns of a thread, each time around the loop. scripts/sass/model.py reads this line.
constexpr int kLaneColumns = 16;
static_assert(kLaneColumns == 8 * kTurns);

constexpr int kMostThreads = 256;

// A block has one row.
template <CudaElement kFrom, class To>
static __global__ void __launch_bounds__(kMostThreads)
    DequantiseKernel(const uint8_t* weight, int64_t row_bytes, int columns, int first_row,
                     const int32_t* row_ids, To* out) {
  using Format = WeightFormat<kFrom>;
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int place = static_cast<int>(blockIdx.x);
  const int64_t row = row_ids != nullptr ? row_ids[place] : first_row + place;
  const uint8_t* const from = weight + row * row_bytes;
  To* const to = out + static_cast<int64_t>(place) * columns;
  // tests/planted_bugs: kernel_loses_the_tail
  const int eights = columns / 8;
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < eights; first += kTurns * threads) {
    typename Format::Eight values[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int eight = min(first + turn * threads, eights - 1);
      values[turn] = Format::LoadEight(from, columns, eight);
    }
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int eight = first + turn * threads;
      if (eight >= eights) break;
      const float4 low = Format::Quad(values[turn], 0);
      const float4 high = Format::Quad(values[turn], 1);
      StoreFloats(to + 8 * eight,
                  Floats<8>{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}});
    }
  }
}

namespace {

template <class To>
void Dequantise(const CudaMatrix& weight, int first_row, const int32_t* row_ids, int count, To* out,
                cudaStream_t stream) {
  const LaunchOptions options = {
      .grid = dim3(static_cast<unsigned>(count)),
      .block = dim3(static_cast<unsigned>(
          std::min(kMostThreads, (weight.columns / kLaneColumns + 31) / 32 * 32))),
      .stream = stream,
      .may_start_early = true};
  const auto* data = static_cast<const uint8_t*>(weight.data);
  const auto row_bytes = static_cast<int64_t>(CudaRowBytes(weight.element, weight.columns));
  const auto launch = [&](auto kernel) {
    Launch(kernel, options, data, row_bytes, weight.columns, first_row, row_ids, out);
  };
  switch (weight.element) {
    case CudaElement::kQ8_0:
      return launch(DequantiseKernel<CudaElement::kQ8_0, To>);
    case CudaElement::kQ4_0:
      return launch(DequantiseKernel<CudaElement::kQ4_0, To>);
    case CudaElement::kQ4_1:
      return launch(DequantiseKernel<CudaElement::kQ4_1, To>);
    case CudaElement::kMxfp4:
      return launch(DequantiseKernel<CudaElement::kMxfp4, To>);
    case CudaElement::kQ4_K:
      return launch(DequantiseKernel<CudaElement::kQ4_K, To>);
    case CudaElement::kQ6_K:
      return launch(DequantiseKernel<CudaElement::kQ6_K, To>);
    default:
      BATON_CHECK(false, "the weight must be quantised");
  }
}

}  // namespace

void LaunchDequantise(const CudaMatrix& weight, int first_row, int count, CudaElement to, void* out,
                      cudaStream_t stream) {
  BATON_CHECK(count > 0 && first_row >= 0 && first_row + count <= weight.rows, "rows of a weight");
  WithElement(to, [&](auto element) {
    Dequantise(weight, first_row, nullptr, count, static_cast<decltype(element)*>(out), stream);
  });
}

void LaunchDequantiseRows(const CudaMatrix& table, const int32_t* row_ids, Tensor out,
                          cudaStream_t stream) {
  BATON_CHECK(out.rows > 0 && out.columns == table.columns, "rows of a table");
  Dequantise(table, 0, row_ids, out.rows, out.data, stream);
}

}  // namespace baton
