#include "common/model/transformer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/rope_table.h"

namespace baton {
namespace {

// Rows of logits that are computed together, to bound the memory of a pass that wants many.
constexpr int kLogitsRows = 64;

// The buffers of a pass, in one allocation of the backend.
struct Activations {
  Tensor residual;  // [rows, width]: what the layers add to
  Tensor queries;   // [rows, heads * head_dim]
  Tensor keys;      // [rows, kv_heads * head_dim]
  Tensor values;    // [rows, kv_heads * head_dim]
  Tensor attended;  // [rows, heads * head_dim]
  Tensor gate;      // [rows, feed_forward_width]
  Tensor up;        // [rows, feed_forward_width]
  Tensor last;      // [kLogitsRows, width]: the rows whose logits are wanted
  Tensor logits;    // [kLogitsRows, vocab_size]

  // Calls visit(tensor, rows, columns) for each.
  template <class Visit>
  void ForEach(const ModelConfig& config, int rows, Visit visit) {
    const int query_size = config.heads * config.head_dim;
    const int kv_size = config.kv_heads * config.head_dim;
    visit(residual, rows, config.width);
    for (Tensor* tensor : {&queries, &attended}) visit(*tensor, rows, query_size);
    for (Tensor* tensor : {&keys, &values}) visit(*tensor, rows, kv_size);
    for (Tensor* tensor : {&gate, &up}) visit(*tensor, rows, config.feed_forward_width);
    visit(last, kLogitsRows, config.width);
    visit(logits, kLogitsRows, config.vocab_size);
  }
};

}  // namespace

struct Transformer::Rep {
  ModelConfig config;
  Backend& backend;
  ModelWeights weights;
  RopeTable rope;
  BackendBuffer memory = {};  // of the activations
  int memory_rows = 0;

  // Buffers for `rows` rows.
  absl::StatusOr<Activations> Arrange(int rows);
  // Adds one layer's attention and feed-forward to the residual stream.
  void Layer(int layer, const KvLayerView& cache, absl::FunctionRef<void(int)> on_layer,
             const Activations& a);
  void Logits(const Batch& batch, const Activations& a, absl::Span<float> logits);
};

absl::StatusOr<Activations> Transformer::Rep::Arrange(int rows) {
  constexpr size_t kAlign = 64;  // bytes
  Activations a;
  const auto bytes_of = [](int r, int columns) {
    const size_t bytes = static_cast<size_t>(r) * static_cast<size_t>(columns) * sizeof(float);
    return (bytes + kAlign - 1) / kAlign * kAlign;
  };
  if (rows > memory_rows) {
    size_t total = 0;
    a.ForEach(config, rows, [&](Tensor&, int r, int columns) { total += bytes_of(r, columns); });
    BATON_ASSIGN_OR_RETURN(memory, backend.Allocate(total));
    memory_rows = rows;
  }
  uint8_t* next = memory.data();
  a.ForEach(config, rows, [&](Tensor& tensor, int r, int columns) {
    tensor = {reinterpret_cast<float*>(next), r, columns};
    next += bytes_of(r, columns);
  });
  return a;
}

void Transformer::Rep::Layer(int layer, const KvLayerView& cache,
                             absl::FunctionRef<void(int)> on_layer, const Activations& a) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];

  backend.NormProduct(
      a.residual, w.attention_norm.data(), config.norm_epsilon, Backend::InputPrecision::kUsual,
      {{w.query.get(), a.queries}, {w.key.get(), a.keys}, {w.value.get(), a.values}});
  if (!w.query_bias.empty()) backend.AddBias(w.query_bias.data(), a.queries);
  if (!w.key_bias.empty()) backend.AddBias(w.key_bias.data(), a.keys);
  if (!w.value_bias.empty()) backend.AddBias(w.value_bias.data(), a.values);
  backend.RotateAndAppend(a.queries, a.keys, a.values, cache);
  backend.Synchronize();
  on_layer(layer);
  backend.Attention(a.queries, cache, a.attended);
  backend.Product(a.attended, {{w.attention_output.get(), a.residual, /*accumulate=*/true}});

  backend.NormProduct(a.residual, w.feed_forward_norm.data(), config.norm_epsilon,
                      Backend::InputPrecision::kUsual,
                      {{w.gate.get(), a.gate}, {w.up.get(), a.up}});
  backend.SwiGluProduct(a.gate, a.up, {{w.down.get(), a.residual, /*accumulate=*/true}});
}

void Transformer::Rep::Logits(const Batch& batch, const Activations& a, absl::Span<float> logits) {
  const absl::Span<const int> rows = batch.logits_rows;
  const size_t vocab_size = static_cast<size_t>(config.vocab_size);
  for (size_t first = 0; first < rows.size(); first += kLogitsRows) {
    const absl::Span<const int> some = rows.subspan(first, kLogitsRows);
    const Tensor last = a.last.First(static_cast<int>(some.size()));
    const Tensor out = a.logits.First(static_cast<int>(some.size()));
    backend.CopyRows(a.residual, some, last);
    // The head's own rounding is half of the whole model's divergence; one product more is cheap.
    backend.NormProduct(last, weights.output_norm.data(), config.norm_epsilon,
                        Backend::InputPrecision::kFine, {{&weights.head(), out}});
    backend.Download(out.data, some.size() * vocab_size * sizeof(float),
                     logits.data() + first * vocab_size);
  }
}

Transformer::Transformer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Transformer::~Transformer() = default;

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Load(const GgufFile& file,
                                                               Backend& backend,
                                                               Progress progress) {
  BATON_ASSIGN_OR_RETURN(ModelConfig config, ModelConfig::FromGguf(file));
  BATON_ASSIGN_OR_RETURN(ModelWeights weights, ModelWeights::Load(file, config, backend, progress));
  RopeTable rope(config, weights.rope_divisors);
  return std::unique_ptr<Transformer>(
      new Transformer(std::make_unique<Rep>(Rep{.config = std::move(config),
                                                .backend = backend,
                                                .weights = std::move(weights),
                                                .rope = std::move(rope)})));
}

const ModelConfig& Transformer::config() const { return rep_->config; }
const ModelWeights& Transformer::weights() const { return rep_->weights; }

KvLayout Transformer::MakeKvLayout(int block_size, KvDtype dtype) const {
  return {.layers = rep_->config.layers,
          .kv_heads = rep_->config.kv_heads,
          .head_dim = rep_->config.head_dim,
          .block_size = block_size,
          .dtype = dtype};
}

absl::Status Transformer::Reserve(int max_rows) { return rep_->Arrange(max_rows).status(); }

void Transformer::Forward(const Batch& batch, KvCache& cache, absl::FunctionRef<void(int)> on_layer,
                          absl::Span<float> logits) {
  BATON_CHECK(
      logits.size() == batch.logits_rows.size() * static_cast<size_t>(rep_->config.vocab_size),
      "logits [logits_rows, vocab_size]");
  std::vector<PassSequence> sequences;
  std::vector<int> positions;  // [rows]
  for (const BatchSequence& s : batch.sequences) {
    const int end = s.first_position + s.row_count;
    BATON_CHECK(s.row_count > 0 && s.first_position >= 0 && end <= rep_->config.context_length,
                "positions below context_length");
    BATON_CHECK(static_cast<int>(s.block_table.size()) >= cache.layout().BlocksFor(end),
                "block table long enough");
    sequences.push_back({s.first_row, s.row_count, s.first_position, s.block_table.data()});
    for (int i = s.first_position; i < end; ++i) positions.push_back(i);
  }
  std::vector<float> cosines;
  std::vector<float> sines;
  rep_->rope.Fill(positions, cosines, sines);
  rep_->backend.BeginPass({.token_ids = batch.token_ids,
                           .sequences = sequences,
                           .rope_pairs = rep_->config.rope_pairs,
                           .rope_dim = rep_->config.rope_dim,
                           .rope_cos = cosines,
                           .rope_sin = sines});

  const absl::StatusOr<Activations> activations = rep_->Arrange(batch.rows());
  BATON_CHECK(activations.ok(), "memory for the rows: Reserve them before");
  rep_->backend.Embed(*rep_->weights.embedding, activations->residual);
  for (int layer = 0; layer < rep_->config.layers; ++layer) {
    rep_->Layer(layer, cache.LayerView(layer), on_layer, *activations);
  }
  rep_->Logits(batch, *activations, logits);
  rep_->backend.Synchronize();
}

}  // namespace baton
