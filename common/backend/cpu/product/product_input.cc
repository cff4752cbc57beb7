#include "common/backend/cpu/product/product_input.h"

#include <cstddef>

#include "common/backend/cpu/kernels/kernels.h"
#include "common/base/grow.h"

namespace baton {

void ProductInput::Prepare(const CpuKernels& kernels, ThreadPool& pool, ProductInputArgs args,
                           bool quantised, bool floats) {
  rows_ = args.in.rows;
  columns_ = args.in.columns;
  terms_ = args.terms;
  quantised_ = quantised;
  if (quantised) {
    args.block_stride = block_stride();
    GrowTo(static_cast<size_t>(rows_ * terms_) * static_cast<size_t>(args.block_stride), blocks_);
    args.blocks = blocks_.data();
  }
  floats_ = args.in.data;
  float_stride_ = columns_;
  const bool in_place = args.kind == ProductInputArgs::Kind::kPlain &&
                        (rows_ == 1 || FloatStride(columns_) == columns_);
  if (floats && !in_place) {
    float_stride_ = FloatStride(columns_);
    const size_t stored = static_cast<size_t>(rows_) * static_cast<size_t>(float_stride_);
    GrowTo(stored, float_storage_);
    args.floats = float_storage_.data();
    args.float_stride = float_stride_;
    floats_ = args.floats;
  }
  if (args.blocks == nullptr && args.floats == nullptr) return;
  pool.ParallelFor(rows_, [&](int begin, int end) { kernels.prepare_input(args, begin, end); });
}

ProductRows ProductInput::Rows(int first, int count) const {
  ProductRows rows{.rows = count, .terms = terms_};
  if (quantised_) {
    rows.block_stride = block_stride();
    rows.blocks = blocks_.data() +
                  static_cast<size_t>(first * terms_) * static_cast<size_t>(rows.block_stride);
  }
  if (floats_ != nullptr) {
    rows.floats = floats_ + static_cast<size_t>(first) * static_cast<size_t>(float_stride_);
    rows.float_stride = float_stride_;
  }
  return rows;
}

}  // namespace baton
