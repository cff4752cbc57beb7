// The device that does the arithmetic: CPU or CUDA, chosen at start, behind one interface.
//
// The operations are those of one decoder layer, at the grain of a kernel: a product normalises or
// gates its input on the way in, and adds to its output on the way out if asked. On the CPU, and on
// CUDA with --deterministic, every result of a row depends on the inputs of that row only, bit for
// bit: never on the other rows, the threads or the block size (docs/numerics.md). The
// order of each reduction is written in the header of its operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/attention_rule.h"
#include "common/backend/batch.h"
#include "common/backend/gate_function.h"
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

// A matrix [rows out, columns in] in the form that its backend multiplies with. Only the backend
// that loaded it can read it.
class Weight {
 public:
  virtual ~Weight() = default;
  int rows() const { return rows_; }
  int columns() const { return columns_; }
  // The bytes of memory that a product over few rows reads.
  virtual size_t size_bytes() const = 0;

 protected:
  Weight(int rows, int columns) : rows_(rows), columns_(columns) {}

 private:
  int rows_;
  int columns_;
};

// The use of a device's own memory, in bytes.
struct DeviceMemoryUse {
  uint64_t total = 0;  // the device's memory; 0: the backend's memory is the host's
  uint64_t free = 0;   // memory that any process may take
  uint64_t taken = 0;  // memory that this process took: Allocate, weights, scratch
};

// Upper bounds of the passes to come.
struct PassLimits {
  int rows = 0;
  int sequences = 0;
  int tokens = 0;  // tokens of one sequence, those in the cache included
  // Tokens of all sequences of a pass, a common beginning counted once. Where more are counted, a
  // pass needs no more memory, only a little longer.
  int64_t cache_tokens = 0;
  int heads = 0;
  KvLayerView cache;  // only its shape is read
};

// Which dimensions of a head are rotated together: (2i, 2i + 1), or (i, i + dim / 2).
enum class RopePairs { kInterleaved, kHalfSplit };

// The angles by which the layers of one kind rotate a pass's queries and keys.
struct RopeAngles {
  RopePairs pairs = RopePairs::kInterleaved;
  int dim = 0;                           // rotated dimensions of a head
  absl::Span<const float> cosines = {};  // [rows of the pass, dim / 2]
  absl::Span<const float> sines = {};    // [rows of the pass, dim / 2]
};

// One forward pass over a batch, with all that the backend has to know beside it. The batch and the
// arrays lie in host memory, borrowed until the next BeginPass.
struct Pass {
  const Batch* batch = nullptr;
  bool recorded = false;  // PassRecordings::Run comes next
  int padding_rows = 0;   // rows behind those of the batch; none unless recorded
  // One for each kind of layer; RotateAndAppend names one by its index. Empty if nothing is
  // rotated.
  std::vector<RopeAngles> ropes = {};
  // By which each row's queries are multiplied once they are rotated (a temperature that depends on
  // the position); [rows of the pass], or empty: 1.
  absl::Span<const float> query_scales = {};

  int rows() const { return batch->rows() + padding_rows; }
};

// The rope of a layer that rotates nothing.
inline constexpr int kNoRope = -1;

// The matrices and biases of a layer's experts; borrowed. Biases lie in the backend's memory; null:
// there are none.
struct Experts {
  absl::Span<const std::unique_ptr<Weight>> gate;  // [experts] of [expert_width, width]
  absl::Span<const std::unique_ptr<Weight>> up;    // [experts] of [expert_width, width]
  absl::Span<const std::unique_ptr<Weight>> down;  // [experts] of [width, expert_width]
  const float* gate_bias = nullptr;                // [experts, expert_width]
  const float* up_bias = nullptr;                  // [experts, expert_width]
  const float* down_bias = nullptr;                // [experts, width]
  int used = 0;                                    // experts that each row chooses
  GateFunction function = GateFunction::kSilu;
};

// Thread rule: one thread at a time, because a backend keeps the current pass and scratch memory;
// an engine has its own backend. Operations may run later, in the order of the calls; Synchronize
// waits for them. The caller answers for the shapes: a mismatch is a failed CHECK.
class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu" or "cuda", without the device's number.
  virtual const char* Name() const = 0;
  // Everything but the inputs that the bits of the results depend on (common/base/numerics.h).
  virtual std::string Numerics() const = 0;
  // Text for banners: "cpu avx512, 2 threads on CPUs 0,1".
  virtual std::string Description() const = 0;
  // Whether the host itself may read and write the memory of Allocate, once the operations asked
  // for before are done (Synchronize). Otherwise only Upload and Download reach it.
  virtual bool host_memory() const = 0;
  // How many steps may be asked for before the oldest step's tokens are taken; 0 if operations
  // are done when they return.
  virtual int steps_ahead() const = 0;
  // About how many bytes Allocate could still give; 0: unknown.
  virtual uint64_t FreeMemoryBytes() const = 0;
  virtual DeviceMemoryUse MemoryUse() const = 0;
  // Takes the device memory that passes within `limits` need for their arrays and for attention,
  // which grows with the length of sequences. Memory for products is taken by the first pass of as
  // many rows. Returns RESOURCE_EXHAUSTED as Allocate does.
  virtual absl::Status ReservePasses(const PassLimits& limits) = 0;

  // Gives zeroed memory, or RESOURCE_EXHAUSTED when there is not as much.
  virtual absl::StatusOr<BackendBuffer> Allocate(size_t bytes) = 0;
  // Repacks a matrix with dims {columns, rows}. UNIMPLEMENTED names the tensor, its type and the
  // supported types.
  virtual absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(const GgufTensor& tensor) = 0;
  // The bytes of memory that LoadWeight takes for such a matrix, whose own bytes are not read; or
  // its error, but for what is wrong with those.
  virtual absl::StatusOr<uint64_t> WeightBytes(const GgufTensor& tensor) const = 0;

  // Makes the sampler of one engine. It must not outlive the backend. RESOURCE_EXHAUSTED when there
  // is not as much memory.
  virtual absl::StatusOr<std::unique_ptr<StepSampler>> MakeStepSampler(
      const StepSamplerOptions& options) = 0;

  // Makes the recordings of one engine. They must not outlive the backend.
  virtual std::unique_ptr<PassRecordings> MakeRecordings() = 0;

  virtual void BeginPass(const Pass& pass) = 0;
  // out[r] = the table's row for token r of the pass, with the bits of the dequantised weight.
  virtual void Embed(const Weight& table, Tensor out) = 0;
  struct ProductOutput {
    const Weight* weight;     // [out.columns, in.columns]
    Tensor out;               // [rows, weight rows]
    bool accumulate = false;  // out += scale * the product, instead of out =
    float scale = 1;          // 1 unless `accumulate`
  };
  // The precision of a quantised product's input: kFine costs twice the arithmetic, no more reads.
  enum class InputPrecision { kUsual, kFine };
  // out = in x weight^T for every output.
  virtual void Product(Tensor in, absl::Span<const ProductOutput> outputs) = 0;
  // Product, but of in / sqrt(mean(in^2) + epsilon) * gain, by rows. `gain` [columns].
  virtual void NormProduct(Tensor in, const float* gain, float epsilon, InputPrecision precision,
                           absl::Span<const ProductOutput> outputs) = 0;
  // Product, but of function(gate, up).
  virtual void GatedProduct(GateFunction function, Tensor gate, Tensor up,
                            absl::Span<const ProductOutput> outputs) = 0;
  // A mixture of experts. Each row of `in` [rows, width], normalised by `gain` and `epsilon` as in
  // NormProduct, is the input x of the experts with the row's greatest logits in `router` [rows,
  // experts]; of equal logits the lower expert's counts as greater. The share of a chosen expert is
  // the softmax over the chosen logits. Adds `scale` times the sum of share * (down(function(gate x
  // + bias, up x + bias)) + bias), experts ascending, to `out` [rows, width]; `out` may be `in`.
  virtual void AddExperts(Tensor in, const float* gain, float epsilon, Tensor router,
                          const Experts& experts, float scale, Tensor out) = 0;
  // out += bias, by rows. `bias` [columns].
  virtual void AddBias(const float* bias, Tensor out) = 0;
  // values = values / sqrt(mean(values^2) + epsilon) * gain, over each `size` neighbouring columns
  // by themselves. `gain` [size]. REQUIRES: size divides the columns.
  virtual void NormGroups(const float* gain, int size, float epsilon, Tensor values) = 0;
  // out += scale * (in / sqrt(mean(in^2) + epsilon) * gain), by rows. `gain` [columns].
  virtual void AddNorm(Tensor in, const float* gain, float epsilon, float scale, Tensor out) = 0;
  // values = factor * values.
  virtual void Scale(float factor, Tensor values) = 0;
  // values = cap * tanh(values / cap).
  virtual void SoftCap(float cap, Tensor values) = 0;
  // Rotates the heads of `queries` and `keys` (in place) by the angles of the pass's rope `rope`,
  // or not at all (kNoRope), multiplies `queries` by the pass's query_scales, and stores `keys` and
  // `values` [rows, kv_heads * head_dim] in the cache. For a cache of rotated heads (kv_int4.h)
  // `queries` are then rotated as the heads in the cache are.
  virtual void RotateAndAppend(int rope, Tensor queries, Tensor keys, Tensor values,
                               const KvLayerView& cache) = 0;
  // Causal softmax attention of every row of `queries` [rows, heads * head_dim] over those of its
  // sequence's K and V in the cache that `rule` lets it see. Query head h reads KV head h / (heads
  // / kv_heads). For a cache of rotated heads `queries` are rotated ones, and `out` is rotated
  // back.
  virtual void Attention(const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                         Tensor out) = 0;
  // RotateAndAppend, then Attention, with their bits, where each sequence of the pass has one row.
  // What is left in `queries` and `keys` is unspecified.
  virtual void AppendAndAttend(int rope, Tensor queries, Tensor keys, Tensor values,
                               const KvLayerView& cache, const AttentionRule& rule, Tensor out) {
    RotateAndAppend(rope, queries, keys, values, cache);
    Attention(rule, queries, cache, out);
  }
  // out[i] = in[rows[i]]. `out` may be the first rows of `in`. REQUIRES: rows ascend.
  virtual void CopyRows(Tensor in, absl::Span<const int> rows, Tensor out) = 0;

  // Copies within the backend's memory; an operation.
  virtual void Copy(const void* from, size_t bytes, void* to) = 0;
  // Copy between the host's memory and the backend's; Download waits for the operations before it.
  virtual void Upload(const void* host, size_t bytes, void* device) = 0;
  virtual void Download(const void* device, size_t bytes, void* host) = 0;
  virtual void Synchronize() = 0;
  // The copier that works beside the operations; null if host_memory(). The backend owns it.
  virtual DeviceCopies* device_copies() { return nullptr; }
};

}  // namespace baton
