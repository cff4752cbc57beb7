#include "common/backend/cuda/product/weight_upload.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/backend/cuda/device/cuda_error.h"
#include "common/backend/cuda/product/weight_layout.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

// A copy of the most bytes takes far longer than the call that asks for it. Matrices of a few
// megabytes are cut smaller, so that each thread has a part, but not so small that calls cost more
// than copies.
constexpr size_t kMostPieceBytes = size_t{2} << 20;
constexpr size_t kLeastPieceBytes = size_t{256} << 10;
constexpr size_t kPiecesPerThread = 2;
// More would wait for the bus.
constexpr int kMostThreads = 32;

// Lays out `count` rows from `first` on at `to` [count, CudaRowBytes]. Returns whether all of them
// are valid.
bool LayOut(const FileRows& file, size_t first, size_t count, uint8_t* to) {
  const size_t row_bytes = CudaRowBytes(file.element, file.columns);
  const uint8_t* const from = file.data + first * file.row_bytes;
  if (!IsQuantised(file.element) && file.row_bytes == row_bytes) {
    std::memcpy(to, from, count * row_bytes);
    return true;
  }
  std::memset(to, 0, count * row_bytes);
  for (size_t row = 0; row < count; ++row) {
    const uint8_t* const in = from + row * file.row_bytes;
    if (!ValidFileRow(file.element, in, file.columns)) return false;
    PackCudaRow(file.element, in, file.columns, to + row * row_bytes);
  }
  return true;
}

}  // namespace

WeightUpload::WeightUpload(int device, const PoolThreads& threads)
    : device_(device),
      pool_(std::min(threads.count, kMostThreads), threads.cpus),
      lanes_(static_cast<size_t>(pool_.size())),
      stream_(MakeCudaStream()) {}

absl::Status WeightUpload::Reserve(size_t bytes) {
  if (bytes <= piece_bytes_) return absl::OkStatus();
  piece_bytes_ = 0;
  memory_ = BackendBuffer();
  BATON_ASSIGN_OR_RETURN(memory_, AllocatePinnedMemory(lanes_.size() * 2 * bytes));
  piece_bytes_ = bytes;
  uint8_t* next = memory_.data();
  for (Lane& lane : lanes_) {
    for (Piece& piece : lane.pieces) {
      piece.memory = next;
      next += bytes;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> WeightUpload::Copy(const FileRows& file, uint8_t* to) {
  const size_t row_bytes = CudaRowBytes(file.element, file.columns);
  BATON_RETURN_IF_ERROR(Reserve(std::max(kMostPieceBytes, row_bytes)));
  const size_t even = file.rows * row_bytes / (lanes_.size() * kPiecesPerThread);
  const size_t rows_each = std::clamp<size_t>(
      std::clamp(even, kLeastPieceBytes, kMostPieceBytes) / row_bytes, 1, file.rows);
  const auto pieces = static_cast<int>((file.rows + rows_each - 1) / rows_each);
  std::atomic<bool> valid = true;
  pool_.Run(pieces, [&](int thread, int index) {
    if (!valid) return;
    Lane& lane = lanes_[static_cast<size_t>(thread)];
    Piece& piece = lane.pieces[lane.next];
    lane.next = 1 - lane.next;
    const size_t first = static_cast<size_t>(index) * rows_each;
    const size_t count = std::min(rows_each, file.rows - first);
    CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
    CheckCuda(cudaEventSynchronize(piece.copied.get()), "cudaEventSynchronize");
    if (!LayOut(file, first, count, piece.memory)) {
      valid = false;
      return;
    }
    CheckCuda(cudaMemcpyAsync(to + first * row_bytes, piece.memory, count * row_bytes,
                              cudaMemcpyHostToDevice, stream_.get()),
              "copy of a weight");
    CheckCuda(cudaEventRecord(piece.copied.get(), stream_.get()), "cudaEventRecord");
  });
  // The stream of the operations does not wait for this one.
  CheckCuda(cudaStreamSynchronize(stream_.get()), "copy of a weight");
  return valid.load();
}

}  // namespace baton
