// PassRecordings that are CUDA graphs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "common/backend/cuda/device/cuda_memory.h"
#include "common/backend/cuda/device/recent_cache.h"
#include "common/backend/cuda/pass/pass_shape.h"
#include "common/backend/pass_recordings.h"

namespace baton {

// The first pass of a shape runs as it is, so that all memory that it needs is there. The second
// one is captured; its graph is launched for it and for all later ones. When memory whose address
// the graphs contain has moved, all graphs are captured anew.
class CudaRecordings final : public PassRecordings {
 public:
  // Shapes whose graph is kept. Beyond them, the least recently used shape is captured anew.
  static constexpr size_t kMaxShapes = 256;

  // Borrows all three. `shape` is always the shape of the pass that has begun.
  CudaRecordings(cudaStream_t stream, const PassShape& shape, const MemoryMoves& moves)
      : stream_(stream), shape_(shape), moves_(moves), graphs_(kMaxShapes) {}

  int PassRows(int rows) const override { return RecordedRows(rows); }
  std::vector<RecordedKind> Kinds(int most_sequences, int most_tokens,
                                  int64_t all_tokens) const override;
  bool Run(absl::FunctionRef<void()> operations) override;

 private:
  struct GraphDeleter {
    void operator()(cudaGraphExec_t graph) const;
  };
  using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphDeleter>;

  Graph Capture(absl::FunctionRef<void()> operations) const;

  const cudaStream_t stream_;
  const PassShape& shape_;
  const MemoryMoves& moves_;
  uint64_t known_moves_ = 0;              // moves_.count when the graphs were captured
  RecentCache<PassShape, Graph> graphs_;  // null graph: only the first pass of the shape has run
};

}  // namespace baton
