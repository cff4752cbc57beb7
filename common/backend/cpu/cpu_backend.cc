#include "common/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/backend/cpu/attention/rope.h"
#include "common/backend/cpu/machine/cpu_set.h"
#include "common/backend/cpu/machine/memory.h"
#include "common/backend/cpu/product/add_bias.h"
#include "common/backend/cpu/product/cpu_weight.h"
#include "common/backend/cpu/product/row_ops.h"
#include "common/backend/cpu/sampling/cpu_step_sampler.h"
#include "common/base/check.h"
#include "common/base/free_memory.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

bool SameShape(const Tensor& a, const Tensor& b) {
  return a.rows == b.rows && a.columns == b.columns;
}

// Runs all operations as they come: a recording would save the CPU nothing.
class NoRecordings final : public PassRecordings {
 public:
  int PassRows(int rows) const override { return rows; }
  std::vector<RecordedKind> Kinds(int, int, int64_t) const override { return {}; }
  bool Run(absl::FunctionRef<void()> operations) override {
    operations();
    return true;
  }
};

}  // namespace

CpuBackend::CpuBackend(CpuIsa isa, int threads, std::vector<int> cpus)
    : isa_(isa),
      kernels_(KernelsFor(isa)),
      pool_(threads, std::move(cpus)),
      product_scratch_(static_cast<size_t>(threads)),
      expert_mixer_(isa, pool_) {}

std::string CpuBackend::Description() const {
  return absl::StrCat("cpu ", CpuIsaName(isa_), ", ", DescribeThreads(pool_.size(), pool_.cpus()));
}

uint64_t CpuBackend::FreeMemoryBytes() const { return baton::FreeMemoryBytes(); }

absl::StatusOr<BackendBuffer> CpuBackend::Allocate(size_t bytes) { return memory_.Allocate(bytes); }

absl::StatusOr<std::unique_ptr<Weight>> CpuBackend::LoadWeight(const GgufTensor& tensor) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<CpuWeight> weight,
                         CpuWeight::Pack(tensor, pool_, memory_));
  return weight;
}

absl::StatusOr<uint64_t> CpuBackend::WeightBytes(const GgufTensor& tensor) const {
  return CpuWeight::PackedBytes(tensor);
}

absl::StatusOr<std::unique_ptr<StepSampler>> CpuBackend::MakeStepSampler(
    const StepSamplerOptions& options) {
  return std::make_unique<CpuStepSampler>(options);
}

std::unique_ptr<PassRecordings> CpuBackend::MakeRecordings() {
  return std::make_unique<NoRecordings>();
}

void CpuBackend::BeginPass(const Pass& pass) {
  int rows = 0;
  for (const BatchSequence& sequence : pass.batch->sequences) {
    BATON_CHECK(sequence.first_row == rows && sequence.row_count > 0,
                "each sequence must have rows, behind those of the sequence before");
    rows += sequence.row_count;
  }
  BATON_CHECK(pass.padding_rows == 0, "a pass on the CPU must have no padding", pass.padding_rows);
  pass_ = pass;
}

void CpuBackend::Embed(const Weight& table, Tensor out) {
  const Batch& batch = *pass_.batch;
  BATON_CHECK(out.rows == static_cast<int>(batch.tokens.size()), "one row per token");
  pool_.ParallelFor(out.rows, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const InputToken token = batch.tokens[static_cast<size_t>(row)];
      const int32_t id = token.pending() ? batch.sampled_ids[token.pending_row()] : token.id();
      BATON_CHECK(id >= 0 && id < table.rows(), "token id in the vocabulary");
      AsCpu(table).Dequantise(id, out.Row(row));
    }
  });
}

void CpuBackend::Product(Tensor in, absl::Span<const ProductOutput> outputs) {
  Multiply({.in = in}, outputs);
}

void CpuBackend::NormProduct(Tensor in, const float* gain, float epsilon, InputPrecision precision,
                             absl::Span<const ProductOutput> outputs) {
  Multiply({.kind = ProductInputArgs::Kind::kNorm,
            .in = in,
            .other = gain,
            .epsilon = epsilon,
            .terms = precision == InputPrecision::kFine ? 2 : 1},
           outputs);
}

void CpuBackend::GatedProduct(GateFunction function, Tensor gate, Tensor up,
                              absl::Span<const ProductOutput> outputs) {
  BATON_CHECK(SameShape(gate, up), "gate and up must have one shape");
  Multiply(
      {.kind = ProductInputArgs::Kind::kGated, .function = function, .in = gate, .other = up.data},
      outputs);
}

void CpuBackend::Multiply(const ProductInputArgs& input, absl::Span<const ProductOutput> outputs) {
  bool quantised = false;
  bool floats = false;
  for (const ProductOutput& output : outputs) {
    BATON_CHECK(output.weight->columns() == input.in.columns && output.out.rows == input.in.rows &&
                    output.out.columns == output.weight->rows(),
                "the shapes of input, weight and output must fit");
    BATON_CHECK(output.accumulate || output.scale == 1, "only what is added is scaled");
    (AsCpu(*output.weight).quantised() ? quantised : floats) = true;
  }
  product_input_.Prepare(kernels_, pool_, input, quantised, floats);
  MultiplyWeights(kernels_, pool_, product_input_, outputs, product_scratch_);
}

void CpuBackend::AddExperts(Tensor in, const float* gain, float epsilon, Tensor router,
                            const Experts& experts, float scale, Tensor out) {
  expert_mixer_.Add({.in = in,
                     .gain = gain,
                     .epsilon = epsilon,
                     .router = router,
                     .experts = experts,
                     .scale = scale,
                     .out = out},
                    product_scratch_);
}

void CpuBackend::AddBias(const float* bias, Tensor out) { AddBiasRows(isa_, pool_, bias, out); }

void CpuBackend::NormGroups(const float* gain, int size, float epsilon, Tensor values) {
  NormGroupsOfRows(isa_, pool_, gain, size, epsilon, values);
}

void CpuBackend::AddNorm(Tensor in, const float* gain, float epsilon, float scale, Tensor out) {
  BATON_CHECK(SameShape(in, out), "input and output must have one shape");
  AddNormOfRows(isa_, pool_, in, gain, epsilon, scale, out);
}

void CpuBackend::Scale(float factor, Tensor values) { ScaleRows(isa_, pool_, factor, values); }

void CpuBackend::SoftCap(float cap, Tensor values) { SoftCapRows(isa_, pool_, cap, values); }

void CpuBackend::RotateAndAppend(int rope, Tensor queries, Tensor keys, Tensor values,
                                 const KvLayerView& cache) {
  BATON_CHECK(SameShape(keys, values) && keys.columns == cache.kv_heads * cache.head_dim &&
                  queries.rows == keys.rows,
              "the shapes of queries, keys, values and cache must fit");
  RotateAndAppendRows(kernels_, pool_, pass_, rope, queries, keys, values, cache);
}

void CpuBackend::Attention(const AttentionRule& rule, Tensor queries, const KvLayerView& cache,
                           Tensor out) {
  BATON_CHECK(SameShape(queries, out) && queries.columns % (cache.kv_heads * cache.head_dim) == 0,
              "queries and output must have one shape, whole groups of query heads");
  AttendRows(kernels_, pool_, pass_.batch->sequences, rule, queries, cache, out,
             attention_scratch_);
}

void CpuBackend::CopyRows(Tensor in, absl::Span<const int> rows, Tensor out) {
  BATON_CHECK(static_cast<int>(rows.size()) == out.rows && in.columns == out.columns,
              "the output must have one row for each copied row, of the input's columns");
  for (int i = 0; i < out.rows; ++i) {
    const int row = rows[static_cast<size_t>(i)];
    BATON_CHECK(row >= i && row < in.rows, "ascending rows of the input");
    if (out.Row(i) == in.Row(row)) continue;
    std::memcpy(out.Row(i), in.Row(row), static_cast<size_t>(in.columns) * sizeof(float));
  }
}

void CpuBackend::Copy(const void* from, size_t bytes, void* to) { std::memcpy(to, from, bytes); }

void CpuBackend::Upload(const void* host, size_t bytes, void* device) {
  std::memcpy(device, host, bytes);
}

void CpuBackend::Download(const void* device, size_t bytes, void* host) {
  std::memcpy(host, device, bytes);
}

}  // namespace baton
