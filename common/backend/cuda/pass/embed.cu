#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/pass/embed.h"
#include "common/backend/cuda/product/library/dequantise.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "ptx.h"

namespace baton {

constexpr int kEmbedThreads = 128;

// The grid is [rows, blocks of columns]; a thread has kCount columns.
template <class Element, int kCount>
static __global__ void __launch_bounds__(kEmbedThreads)
    EmbedKernel(const Element* table, size_t row_stride, const int32_t* token_ids, int columns,
                float* out) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const size_t row = blockIdx.x;
  const size_t column = (size_t{blockIdx.y} * kEmbedThreads + threadIdx.x) * kCount;
  if (column >= static_cast<size_t>(columns)) return;
  const size_t token = static_cast<size_t>(token_ids[row]);
  const Floats<kCount> values = LoadFloats<kCount>(table + token * row_stride + column);
  StoreFloats(out + row * static_cast<size_t>(columns) + column, values);
}

static __global__ void TokenIdsKernel(const InputToken* tokens, const int32_t* sampled_ids,
                                      int count, int32_t* token_ids) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= count) return;
  const InputToken token = tokens[row];
  token_ids[row] = token.pending() ? sampled_ids[token.pending_row()] : token.id();
}

template <class Element, int kCount>
static void EmbedBy(const CudaMatrix& table, const int32_t* token_ids, Tensor out,
                    cudaStream_t stream) {
  Launch(
      EmbedKernel<Element, kCount>,
      {.grid = {static_cast<unsigned>(out.rows), BlocksFor(table.columns, kEmbedThreads * kCount)},
       .block = kEmbedThreads,
       .stream = stream,
       .may_start_early = true},
      static_cast<const Element*>(table.data),
      CudaRowBytes(table.element, table.columns) / sizeof(Element), token_ids, table.columns,
      out.data);
}

void LaunchTokenIds(const InputToken* tokens, const int32_t* sampled_ids, int count,
                    int32_t* token_ids, cudaStream_t stream) {
  if (count == 0) return;
  Launch(TokenIdsKernel,
         {.grid = BlocksFor(count, kEmbedThreads),
          .block = kEmbedThreads,
          .stream = stream,
          .may_start_early = true},
         tokens, sampled_ids, count, token_ids);
}

void LaunchEmbed(const CudaMatrix& table, const int32_t* token_ids, Tensor out,
                 cudaStream_t stream) {
  if (out.rows == 0) return;
  if (IsQuantised(table.element)) return LaunchDequantiseRows(table, token_ids, out, stream);
  WithElement(table.element, [&](auto element) {
    using Element = decltype(element);
    constexpr int kColumns = 4;  // 16 bytes of the output
    if (table.columns % kColumns == 0 && MultiplesOf16({table.data, out.data})) {
      EmbedBy<Element, kColumns>(table, token_ids, out, stream);
    } else {
      EmbedBy<Element, 1>(table, token_ids, out, stream);
    }
  });
}

}  // namespace baton
