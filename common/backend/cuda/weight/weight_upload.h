// Brings the rows of a model file to the device: threads of the host bring them into pinned memory,
// and the device meanwhile copies what is there, and lays out quantised rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cuda/device/cuda_memory.h"
#include "common/backend/cuda/device/operands.h"

namespace baton {

// A matrix as a file has it: row after row, without gaps. Borrowed.
struct FileRows {
  CudaElement element = CudaElement::kF32;
  size_t rows = 0;
  int columns = 0;                // a multiple of BlockColumns(element)
  size_t row_bytes = 0;           // bytes of one row in the file
  const uint8_t* data = nullptr;  // [rows, row_bytes]
};

// Each thread fills a piece of pinned memory with some rows while the device takes its piece before
// that. So the pinned memory is two pieces for each of at most 32 threads, and the device has as
// much for quantised rows as the file has them. A piece has at most 2 MiB, or one row if that is
// more. The weights on the device do not depend on the threads.
//
// Thread rule: one thread at a time. Its threads and its memory last as long as it does.
class WeightUpload {
 public:
  // Copies to `device`, which is current on the calling thread. `threads`: those that fill pieces,
  // as in ThreadPool; the calling one is the first of them.
  WeightUpload(int device, const PoolThreads& threads);

  // Copies the rows to `to` [rows, CudaRowBytes] in the device's memory, where they are when it
  // returns. Returns whether all of them have a meaning; if not, it stops, and what lies at `to`
  // means nothing. RESOURCE_EXHAUSTED if there is not as much memory.
  absl::StatusOr<bool> Copy(const FileRows& file, uint8_t* to);

 private:
  // `taken` comes when the device needs it no more.
  struct Piece {
    uint8_t* memory = nullptr;  // [piece_bytes_], in host_memory_
    CudaEvent taken = MakeCudaEvent();
  };
  // A thread's pieces. Its stream is its own, so that the device copies while it lays out.
  struct Lane {
    Piece pieces[2];
    int next = 0;  // the piece that is filled next
    CudaStream stream = MakeCudaStream();
  };

  // Gives each piece room for `bytes`.
  absl::Status Reserve(size_t bytes);

  const int device_;
  ThreadPool pool_;
  std::vector<Lane> lanes_;  // [threads]
  size_t piece_bytes_ = 0;
  BackendBuffer host_memory_;  // [threads, 2, piece_bytes_], pinned
  // As large, once there were quantised rows: if the device has what it lays out.
  BackendBuffer device_memory_;
};

}  // namespace baton
