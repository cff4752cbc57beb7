// The device that does the arithmetic: CPU or CUDA, chosen at start, behind one interface.
//
// The operations are those of one decoder layer, at the grain of a kernel: what a product reads is
// normalised or gated on the way in, what it adds to is added on the way out. On the CPU, and on
// CUDA with --deterministic, every result depends on the row's own inputs only, bit for bit: never
// on the other rows, the threads or the block size (docs/architecture.md, numerics). The
// reductions' order is written at each operation's header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/pass_recordings.h"
#include "common/backend/step_sampler.h"
#include "common/backend/tensor.h"
#include "common/gguf/gguf_file.h"

namespace baton {

class DeviceCopies;

// Memory of a backend, given back when destroyed. It must not outlive its backend.
class BackendBuffer {
 public:
  BackendBuffer() = default;
  BackendBuffer(uint8_t* data, size_t bytes, std::function<void(uint8_t*)> free)
      : data_(data, std::move(free)), bytes_(bytes) {}
  uint8_t* data() const { return data_.get(); }
  size_t size_bytes() const { return bytes_; }

 private:
  std::unique_ptr<uint8_t, std::function<void(uint8_t*)>> data_;
  size_t bytes_ = 0;
};

// A matrix [rows out, columns in] in the form its backend multiplies with. Only the backend that
// loaded it can read it.
class Weight {
 public:
  virtual ~Weight() = default;
  int rows() const { return rows_; }
  int columns() const { return columns_; }
  // What a product over few rows reads of memory.
  virtual size_t size_bytes() const = 0;

 protected:
  Weight(int rows, int columns) : rows_(rows), columns_(columns) {}

 private:
  int rows_;
  int columns_;
};

// Rows [first_row, first_row + row_count) of a pass: consecutive tokens of one sequence, from
// `first_position` on.
struct PassSequence {
  int first_row = 0;
  int row_count = 0;
  int first_position = 0;
  const int32_t* block_table = nullptr;  // [block_count]
  int block_count = 0;                   // enough for first_position + row_count tokens
};

// Of a device's own memory, in bytes.
struct DeviceMemoryUse {
  uint64_t total = 0;  // 0: the backend's memory is the host's
  uint64_t free = 0;   // whoever takes it
  uint64_t taken = 0;  // by this process: Allocate, weights, scratch
};

// The largest passes to come.
struct PassLimits {
  int rows = 0;
  int sequences = 0;
  int tokens = 0;  // of one sequence, those in the cache included
  int heads = 0;
  KvLayerView cache;  // its shape
};

enum class RopePairs { kInterleaved, kHalfSplit };  // (2i, 2i+1), or (i, i + dim/2)

// What one forward pass computes; host memory, borrowed from BeginPass to the next BeginPass.
struct Pass {
  int rows = 0;
  // PassRecordings::Run comes next: rows behind the sequences' are padding.
  bool recorded = false;
  // [rows]; empty where nothing is embedded. One below 0 stands for choices[~token_id].
  absl::Span<const int32_t> token_ids = {};
  const int32_t* choices = nullptr;          // StepSampler's
  absl::Span<const PassSequence> sequences;  // first_row ascending, without gaps
  RopePairs rope_pairs = RopePairs::kInterleaved;
  int rope_dim = 0;                       // rotated dimensions of a head
  absl::Span<const float> rope_cos = {};  // [rows, rope_dim / 2]
  absl::Span<const float> rope_sin = {};  // [rows, rope_dim / 2]
};

// Thread rule: one thread at a time (a backend keeps the pass and scratch memory); an engine has
// its own. Operations may run later, in order; Synchronize waits. Shapes are the caller's duty: a
// mismatch is a failed CHECK.
class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu" or "cuda": of --device.
  virtual const char* Name() const = 0;
  // What the bits of its results depend on beside the inputs (common/base/numerics.h).
  virtual std::string Numerics() const = 0;
  // For banners: "cpu avx512, 2 threads on CPUs 0,1".
  virtual std::string Description() const = 0;
  // Whether the host reads and writes the memory of Allocate by itself, once what was asked for
  // before is done (Synchronize). Else only Upload and Download reach it.
  virtual bool host_memory() const = 0;
  // How many steps may be asked for before the oldest one's tokens are taken: 0 where operations
  // are done when they return.
  virtual int steps_ahead() const = 0;
  // Bytes that Allocate could still give, about; 0: unknown.
  virtual uint64_t FreeMemoryBytes() const = 0;
  virtual DeviceMemoryUse MemoryUse() const = 0;
  // Takes now what passes within `limits` need of the device's memory for their arrays and
  // attention, which grows with the length of sequences. What products need comes with the first
  // pass of as many rows. RESOURCE_EXHAUSTED as Allocate.
  virtual absl::Status ReservePasses(const PassLimits& limits) = 0;

  // Zeroed memory. RESOURCE_EXHAUSTED when there is not as much.
  virtual absl::StatusOr<BackendBuffer> Allocate(size_t bytes) = 0;
  // Repacks a matrix with dims {columns, rows}. UNIMPLEMENTED names the tensor, its type and the
  // supported ones.
  virtual absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(const GgufTensor& tensor) = 0;

  // Of an engine. RESOURCE_EXHAUSTED when there is not as much memory. It must not outlive the
  // backend.
  virtual absl::StatusOr<std::unique_ptr<StepSampler>> MakeStepSampler(
      const StepSamplerOptions& options) = 0;

  virtual std::unique_ptr<PassRecordings> MakeRecordings() = 0;  // likewise

  virtual void BeginPass(const Pass& pass) = 0;
  // out[r] = table's row of the pass's token r; the same bits as the weight's dequantised value.
  virtual void Embed(const Weight& table, Tensor out) = 0;
  struct ProductOutput {
    const Weight* weight;     // [out.columns, in.columns]
    Tensor out;               // [rows, weight rows]
    bool accumulate = false;  // out += the product, instead of out =
  };
  // How finely a quantised product sees its input: kFine costs twice the arithmetic, not the reads.
  enum class InputPrecision { kUsual, kFine };
  // out = in x weight^T for every output.
  virtual void Product(Tensor in, absl::Span<const ProductOutput> outputs) = 0;
  // The same for in / sqrt(mean(in^2) + epsilon) * gain, by rows. `gain` [columns].
  virtual void NormProduct(Tensor in, const float* gain, float epsilon, InputPrecision precision,
                           absl::Span<const ProductOutput> outputs) = 0;
  // The same for gate / (1 + exp(-gate)) * up.
  virtual void SwiGluProduct(Tensor gate, Tensor up, absl::Span<const ProductOutput> outputs) = 0;
  // out += bias, by rows. `bias` [columns].
  virtual void AddBias(const float* bias, Tensor out) = 0;
  // Rotates the heads of `queries` and `keys` (in place) by the pass's angles, and stores `keys`
  // and `values` [rows, kv_heads * head_dim] in the cache.
  virtual void RotateAndAppend(Tensor queries, Tensor keys, Tensor values,
                               const KvLayerView& cache) = 0;
  // Causal softmax attention of every row of `queries` [rows, heads * head_dim] over its sequence's
  // K and V in the cache, its own included, scaled by 1 / sqrt(head_dim). Query head h reads KV
  // head h / (heads / kv_heads).
  virtual void Attention(Tensor queries, const KvLayerView& cache, Tensor out) = 0;
  // out[i] = in[rows[i]]. `out` may be the first rows of `in`. REQUIRES: rows ascend.
  virtual void CopyRows(Tensor in, absl::Span<const int> rows, Tensor out) = 0;

  // Within the backend's memory: an operation.
  virtual void Copy(const void* from, size_t bytes, void* to) = 0;
  // Between the host's memory and the backend's; Download waits for the operations before it.
  virtual void Upload(const void* host, size_t bytes, void* device) = 0;
  virtual void Download(const void* device, size_t bytes, void* host) = 0;
  virtual void Synchronize() = 0;
  // Copies from and to this backend's memory that nobody waits for; null where host_memory().
  virtual DeviceCopies* device_copies() { return nullptr; }
};

}  // namespace baton
