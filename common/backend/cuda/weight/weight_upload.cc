#include "common/backend/cuda/weight/weight_upload.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "common/backend/cuda/device/cuda_error.h"
#include "common/backend/cuda/weight/pack_rows.h"
#include "common/backend/cuda/weight/weight_layout.h"
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

// Whether each row has a meaning: an MXFP4 block whose exponent is 255 is NaN. Other types take every
// bit pattern.
bool ValidRows(const FileRows& file, std::span<const uint8_t> rows) {
  if (file.element != CudaElement::kMxfp4) return true;
  const auto columns = static_cast<size_t>(file.columns);
  const size_t block_bytes = file.row_bytes * BlockColumns(file.element) / columns;
  for (size_t block = 0; block < rows.size(); block += block_bytes) {
    if (rows[block] == 255) return false;
  }
  return true;
}

// Copies `count` rows of floats to `to`, where each has `row_bytes`, of which the last are zeros.
void PadRows(const uint8_t* from, size_t file_row_bytes, size_t count, size_t row_bytes,
             uint8_t* to) {
  if (file_row_bytes == row_bytes) {
    std::memcpy(to, from, count * row_bytes);
    return;
  }
  for (size_t row = 0; row < count; ++row) {
    std::memcpy(to, from + row * file_row_bytes, file_row_bytes);
    std::memset(to + file_row_bytes, 0, row_bytes - file_row_bytes);
    to += row_bytes;
  }
}

}  // namespace

WeightUpload::WeightUpload(int device, const PoolThreads& threads)
    : device_(device),
      pool_(std::min(threads.count, kMostThreads), threads.cpus),
      lanes_(static_cast<size_t>(pool_.size())) {}

absl::Status WeightUpload::Reserve(size_t bytes) {
  if (bytes <= piece_bytes_) return absl::OkStatus();
  piece_bytes_ = 0;
  host_memory_ = BackendBuffer();
  BATON_ASSIGN_OR_RETURN(host_memory_, AllocatePinnedMemory(lanes_.size() * 2 * bytes));
  piece_bytes_ = bytes;
  uint8_t* next = host_memory_.data();
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
  const size_t most_row_bytes = std::max(row_bytes, file.row_bytes);
  BATON_RETURN_IF_ERROR(Reserve(std::max(kMostPieceBytes, most_row_bytes)));
  if (IsQuantised(file.element)) {
    BATON_RETURN_IF_ERROR(ReserveDeviceMemory(host_memory_.size_bytes(), device_memory_));
  }
  const size_t even = file.rows * most_row_bytes / (lanes_.size() * kPiecesPerThread);
  const size_t rows_each = std::clamp<size_t>(
      std::clamp(even, kLeastPieceBytes, kMostPieceBytes) / most_row_bytes, 1, file.rows);
  const auto pieces = static_cast<int>((file.rows + rows_each - 1) / rows_each);
  std::atomic<bool> valid = true;
  pool_.Run(pieces, [&](int thread, int index) {
    if (!valid) return;
    Lane& lane = lanes_[static_cast<size_t>(thread)];
    Piece& piece = lane.pieces[lane.next];
    lane.next = 1 - lane.next;
    const size_t first = static_cast<size_t>(index) * rows_each;
    const size_t count = std::min(rows_each, file.rows - first);
    const std::span from(file.data + first * file.row_bytes, count * file.row_bytes);
    uint8_t* const rows = to + first * row_bytes;
    const auto copy = [&](uint8_t* device, size_t bytes) {
      CheckCuda(
          cudaMemcpyAsync(device, piece.memory, bytes, cudaMemcpyHostToDevice, lane.stream.get()),
          "copy of a weight");
    };
    CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
    // tests/planted_bugs: weights_fill_a_piece_that_is_not_taken
    CheckCuda(cudaEventSynchronize(piece.taken.get()), "cudaEventSynchronize");
    if (IsQuantised(file.element)) {
      std::memcpy(piece.memory, from.data(), from.size());
      if (!ValidRows(file, {piece.memory, from.size()})) {
        valid = false;
        return;
      }
      uint8_t* const file_rows = device_memory_.data() + (piece.memory - host_memory_.data());
      copy(file_rows, from.size());
      LaunchPackRows(file.element, file_rows, count, file.columns, rows, lane.stream.get());
    } else {
      PadRows(from.data(), file.row_bytes, count, row_bytes, piece.memory);
      copy(rows, count * row_bytes);
    }
    CheckCuda(cudaEventRecord(piece.taken.get(), lane.stream.get()), "cudaEventRecord");
  });
  // The stream of the operations does not wait for these.
  for (const Lane& lane : lanes_) {
    CheckCuda(cudaStreamSynchronize(lane.stream.get()), "copy of a weight");
  }
  return valid.load();
}

}  // namespace baton
