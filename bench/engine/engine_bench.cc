#include "bench/engine/engine_bench.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/backend/cpu/sampling/sampler.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/engine/schedule.h"
#include "common/hugging_face/open_model_file.h"

namespace baton {
namespace {

// Operations of one repetition of Products: enough for the clock's resolution, soon over.
constexpr double kProductsOps = 100e9;
constexpr int64_t kMaxBlocks = int64_t{1} << 24;
constexpr uint64_t kFreeMemoryParts = 10;  // one tenth of the free memory stays free

// The prompt's token at `position`, which is the same in every call. Any tokens would do.
int32_t TokenAt(int position, int vocab_size) {
  const uint64_t mixed = (static_cast<uint64_t>(position) + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<int32_t>((mixed >> 33) % static_cast<uint64_t>(vocab_size));
}

bool IsFloatType(GgmlType type) {
  return type == GgmlType::kF32 || type == GgmlType::kF16 || type == GgmlType::kBf16;
}

// Bytes of a layer's matrices that all rows multiply with.
size_t SharedBytes(const LayerWeights& layer) {
  size_t bytes = 0;
  for (const std::unique_ptr<Weight>* weight :
       {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate, &layer.up,
        &layer.down, &layer.experts.router}) {
    if (*weight != nullptr) bytes += (*weight)->size_bytes();
  }
  return bytes;
}

size_t ExpertBytes(const ExpertWeights& experts) {
  size_t bytes = 0;
  for (const auto* weights : {&experts.gate, &experts.up, &experts.down}) {
    for (const std::unique_ptr<Weight>& weight : *weights) bytes += weight->size_bytes();
  }
  return bytes;
}

}  // namespace

EngineBench::EngineBench(const GgufFile& file, const EngineBenchOptions& options,
                         std::unique_ptr<Backend> backend, std::unique_ptr<Transformer> model)
    : options_(options), backend_(std::move(backend)), model_(std::move(model)) {
  std::map<GgmlType, size_t> bytes_of_type;
  const bool tied = file.FindTensor("output.weight") == nullptr;
  for (const GgufTensor& tensor : file.tensors()) {
    model_bytes_ += tensor.size_bytes();
    bytes_of_type[tensor.type] += tensor.size_bytes();
    if (tensor.dims.size() < 2 || !absl::EndsWith(tensor.name, ".weight")) continue;
    const bool is_head = tensor.name == (tied ? "token_embd.weight" : "output.weight");
    if (!is_head && !absl::StartsWith(tensor.name, "blk.")) continue;
    RowOps& ops = is_head ? head_ops_ : layers_ops_;
    const int matrices = tensor.dims.size() == 3 ? config().experts.used : 1;
    (IsFloatType(tensor.type) ? ops.f32 : ops.int8) +=
        2.0 * matrices * static_cast<double>(tensor.dims[0]) * static_cast<double>(tensor.dims[1]);
  }
  const auto most =
      std::max_element(bytes_of_type.begin(), bytes_of_type.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != bytes_of_type.end()) weights_type_ = most->first;
}

absl::StatusOr<std::unique_ptr<EngineBench>> EngineBench::Load(const std::string& path,
                                                               const EngineBenchOptions& options,
                                                               Transformer::Progress progress) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeBackend(options.backend));
  BATON_ASSIGN_OR_RETURN(const GgufFile file, OpenModelFile(path));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Transformer> model,
                         Transformer::Load(file, *backend, progress));
  return std::unique_ptr<EngineBench>(
      new EngineBench(file, options, std::move(backend), std::move(model)));
}

absl::Status EngineBench::Reserve(int first_tokens, int tokens, int sequences) {
  KvLayout layout = model_->MakeKvLayout(options_.block_size, options_.kv_dtype);
  layout.groups = {};  // no block is given back, so windows change nothing but what is read
  const int blocks_each = layout.BlocksFor(tokens);
  const int blocks_more = std::max(0, layout.BlocksFor(first_tokens) - blocks_each);
  const int64_t blocks = int64_t{blocks_each} * sequences + blocks_more;
  const uint64_t bytes = uint64_t{layout.block_bytes()} * static_cast<uint64_t>(blocks);
  const uint64_t free = backend_->FreeMemoryBytes();
  if (blocks > kMaxBlocks || (free > 0 && bytes > free - free / kFreeMemoryParts)) {
    return absl::ResourceExhaustedError(absl::StrCat("the KV cache needs ", bytes >> 20,
                                                     " MiB, but only ", free >> 20,
                                                     " MiB of memory are free"));
  }
  cache_.reset();
  BATON_ASSIGN_OR_RETURN(cache_, KvCache::Create(*backend_, layout, static_cast<int>(blocks)));
  block_tables_.assign(static_cast<size_t>(sequences), {});
  for (int s = 0; s < sequences; ++s) {
    // The blocks of all sequences alternate, as if the sequences had grown together in an engine.
    for (int b = 0; b < blocks_each; ++b) {
      block_tables_[static_cast<size_t>(s)].push_back(b * sequences + s);
    }
  }
  for (int b = 0; b < blocks_more; ++b) {
    block_tables_[0].push_back(blocks_each * sequences + b);
  }
  depth_ = sequences_ = prompt_in_cache_ = 0;
  logits_.resize(static_cast<size_t>(sequences) * static_cast<size_t>(config().vocab_size));
  recordings_ = backend_->MakeRecordings();
  const int rows = recordings_->PassRows(sequences);
  BATON_ASSIGN_OR_RETURN(sampler_, backend_->MakeStepSampler({.vocab_size = config().vocab_size,
                                                              .max_rows = rows,
                                                              .max_model_len = tokens}));
  return model_->Reserve(std::max(options_.max_num_batched_tokens, rows));
}

int EngineBench::ChunkEnd(int first_position, int end) const {
  if (end - first_position <= options_.max_num_batched_tokens) return end;
  const int cut = first_position + options_.max_num_batched_tokens;
  return cut - cut % kChunkTokens;
}

void EngineBench::RunPrompt(int first_position, int end, bool want_logits,
                            absl::FunctionRef<void()> tick) {
  while (first_position < end) {
    const int chunk_end = ChunkEnd(first_position, end);
    Batch batch;
    batch.sequences = {{.row_count = chunk_end - first_position,
                        .first_position = first_position,
                        .block_table = block_tables_[0].data(),
                        .table_entries = cache_->layout().TableEntriesFor(chunk_end)}};
    for (int position = first_position; position < chunk_end; ++position) {
      batch.tokens.push_back(InputToken::Id(TokenAt(position, config().vocab_size)));
    }
    if (want_logits && chunk_end == end) batch.logits_rows = {batch.rows() - 1};
    const absl::Span<float> logits = absl::MakeSpan(logits_).first(
        batch.logits_rows.size() * static_cast<size_t>(config().vocab_size));
    model_->Forward(
        batch, *cache_, [](int) {}, logits);
    first_position = chunk_end;
    tick();
  }
  prompt_in_cache_ = std::max(prompt_in_cache_, end);
}

void EngineBench::Prepare(int depth, int sequences, absl::FunctionRef<void()> tick) {
  BATON_CHECK(sequences <= static_cast<int>(block_tables_.size()), "room for the sequences");
  if (prompt_in_cache_ < depth) RunPrompt(prompt_in_cache_, depth, /*want_logits=*/false, tick);
  // The other sequences have the same tokens, so their K and V are copies of the first's.
  const int blocks = sequences > 1 ? cache_->layout().BlocksFor(depth) : 0;
  std::vector<uint8_t> bytes(cache_->layout().block_bytes());
  for (size_t b = 0; b < static_cast<size_t>(blocks); ++b) {
    backend_->Download(cache_->Block(block_tables_[0][b]), bytes.size(), bytes.data());
    for (size_t s = 1; s < static_cast<size_t>(sequences); ++s) {
      backend_->Upload(bytes.data(), bytes.size(), cache_->Block(block_tables_[s][b]));
    }
  }
  depth_ = depth;
  sequences_ = sequences;
}

absl::Duration EngineBench::Prefill(int tokens) {
  const absl::Time start = SteadyNow();
  RunPrompt(depth_, depth_ + tokens, /*want_logits=*/true, [] {});
  ArgMax(absl::MakeConstSpan(logits_).first(static_cast<size_t>(config().vocab_size)));
  return SteadyNow() - start;
}

absl::Duration EngineBench::Decode(int steps) {
  const SamplingParams greedy = {.temperature = 0};
  const TokenCounts no_counts(greedy, {}, 0);
  std::vector<SamplingRow> rows;
  Batch batch;
  batch.sampled_ids = sampler_->sampled_ids();
  for (int s = 0; s < sequences_; ++s) {
    batch.sequences.push_back({.first_row = s,
                               .row_count = 1,
                               .first_position = depth_,
                               .block_table = block_tables_[static_cast<size_t>(s)].data(),
                               .table_entries = cache_->layout().TableEntriesFor(depth_ + 1)});
    batch.tokens.push_back(InputToken::Id(TokenAt(depth_ + s, config().vocab_size)));
    batch.logits_rows.push_back(s);
    rows.push_back(
        {.sequence = static_cast<uint64_t>(s), .sampling = &greedy, .counts = &no_counts});
  }
  prompt_in_cache_ = std::min(prompt_in_cache_, depth_);
  const absl::Time start = SteadyNow();
  int taken = 0;
  for (int step = 0; step < steps; ++step) {
    sampler_->Begin(rows);
    model_->Enqueue(
        batch, *cache_, recordings_.get(), [](int) {},
        [&](int first_row, Tensor logits) { sampler_->Sample(first_row, logits); });
    sampler_->End();
    for (; taken <= step - backend_->steps_ahead(); ++taken) sampler_->Take();
    for (int s = 0; s < sequences_; ++s) {
      batch.tokens[static_cast<size_t>(s)] = InputToken::PendingRow(s);
      BatchSequence& sequence = batch.sequences[static_cast<size_t>(s)];
      sequence.table_entries = cache_->layout().TableEntriesFor(++sequence.first_position + 1);
      ++rows[static_cast<size_t>(s)].output_index;  // greedy sampling needs no counts of tokens
    }
  }
  for (; taken < steps; ++taken) sampler_->Take();
  return SteadyNow() - start;
}

int EngineBench::ProductLayers(int rows) const {
  const double ops_of_layer = rows * (layers_ops_.int8 + layers_ops_.f32) / config().layers;
  return static_cast<int>(std::clamp<double>(kProductsOps / ops_of_layer, 1, config().layers));
}

absl::StatusOr<ProductBuffers> EngineBench::MakeProductBuffers(int rows) {
  const int query_size = config().heads * config().head_dim;
  const int kv_size = config().kv_heads * config().head_dim;
  ProductBuffers buffers;
  const std::pair<Tensor*, int> tensors[] = {{&buffers.residual, config().width},
                                             {&buffers.projected, config().width},
                                             {&buffers.attended, query_size},
                                             {&buffers.queries, query_size},
                                             {&buffers.keys, kv_size},
                                             {&buffers.values, kv_size},
                                             {&buffers.gate, config().dense_width()},
                                             {&buffers.up, config().dense_width()},
                                             {&buffers.router, config().experts.count}};
  for (const auto& [tensor, columns] : tensors) {
    if (columns == 0) continue;
    std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(columns));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 251) / 125.0f - 1.0f;
    }
    const size_t bytes = values.size() * sizeof(float);
    BATON_ASSIGN_OR_RETURN(BackendBuffer memory, backend_->Allocate(bytes));
    backend_->Upload(values.data(), bytes, memory.data());
    *tensor = {reinterpret_cast<float*>(memory.data()), rows, columns};
    buffers.memory.push_back(std::move(memory));
  }
  return buffers;
}

absl::Duration EngineBench::Products(const ProductBuffers& b) {
  std::vector<Backend::ProductOutput> of_residual, of_attended, of_up;
  const int layers = ProductLayers(b.residual.rows);
  for (int layer = 0; layer < layers; ++layer) {
    const LayerWeights& w = model_->weights().layers[static_cast<size_t>(layer)];
    of_residual.insert(
        of_residual.end(),
        {{w.query.get(), b.queries}, {w.key.get(), b.keys}, {w.value.get(), b.values}});
    of_attended.push_back({w.attention_output.get(), b.projected});
    if (w.experts.router != nullptr) of_residual.push_back({w.experts.router.get(), b.router});
    if (w.down == nullptr) continue;
    of_residual.insert(of_residual.end(), {{w.gate.get(), b.gate}, {w.up.get(), b.up}});
    of_up.push_back({w.down.get(), b.projected});
  }
  const absl::Time start = SteadyNow();
  backend_->Product(b.residual, of_residual);
  backend_->Product(b.attended, of_attended);
  if (!of_up.empty()) backend_->Product(b.up, of_up);
  for (int layer = 0; layer < layers; ++layer) {
    const LayerWeights& w = model_->weights().layers[static_cast<size_t>(layer)];
    if (w.experts.router == nullptr) continue;
    backend_->AddExperts(b.residual, w.feed_forward_norm.data(), config().norm_epsilon, b.router,
                         w.experts.View(config()), /*scale=*/1, b.projected);
  }
  backend_->Synchronize();
  return (SteadyNow() - start) * config().layers / layers;
}

BenchWork EngineBench::PrefillWork(int tokens) const {
  return {.int8_ops = layers_ops_.int8 + head_ops_.int8 / tokens,
          .f32_ops = layers_ops_.f32 + head_ops_.f32 / tokens};
}

BenchWork EngineBench::DecodeWork(int depth, int steps, int sequences) const {
  const double context = depth + (steps + 1) / 2.0;  // mean number of tokens that a step attends to
  return {.bytes = WeightBytesPerPass() / sequences +
                   context * static_cast<double>(kv_bytes_per_token()),
          .int8_ops = layers_ops_.int8 + head_ops_.int8,
          .f32_ops = layers_ops_.f32 + head_ops_.f32};
}

BenchWork EngineBench::ProductsWork() const {
  return {.int8_ops = layers_ops_.int8, .f32_ops = layers_ops_.f32};
}

double EngineBench::WeightBytesPerPass() const {
  const ModelWeights& weights = model_->weights();
  const ExpertsConfig& experts = config().experts;
  const double used = experts.count == 0 ? 0 : static_cast<double>(experts.used) / experts.count;
  auto bytes = static_cast<double>(weights.head().size_bytes());
  for (const LayerWeights& layer : weights.layers) {
    bytes += static_cast<double>(SharedBytes(layer)) +
             used * static_cast<double>(ExpertBytes(layer.experts));
  }
  return bytes;
}

size_t EngineBench::kv_bytes_per_token() const {
  return model_->MakeKvLayout(options_.block_size, options_.kv_dtype).bytes_per_token();
}

size_t EngineBench::repacked_bytes() const {
  const ModelWeights& weights = model_->weights();
  size_t bytes = weights.embedding->size_bytes();
  if (weights.output != nullptr) bytes += weights.output->size_bytes();
  for (const LayerWeights& layer : weights.layers) {
    bytes += SharedBytes(layer) + ExpertBytes(layer.experts);
  }
  return bytes;
}

}  // namespace baton
