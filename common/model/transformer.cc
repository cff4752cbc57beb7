#include "common/model/transformer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/backend/exact_math.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/rope_table.h"

namespace baton {
namespace {

// The buffers of a pass, in one allocation of the backend.
struct Activations {
  Tensor residual;  // [rows, width]: the residual stream, to which each layer adds
  Tensor queries;   // [rows, heads * head_dim]
  Tensor keys;      // [rows, kv_heads * head_dim]
  Tensor values;    // [rows, kv_heads * head_dim]
  Tensor attended;  // [rows, heads * head_dim]
  Tensor sublayer;  // [rows, width]: what a sublayer adds, if that is normalised before
  Tensor router;    // [rows, experts]
  Tensor gate;      // [rows, dense_width]
  Tensor up;        // [rows, dense_width]
  Tensor logits;    // [kLogitsRows, vocab_size]

  // The first `rows` rows of every buffer whose rows are those of the pass.
  Activations First(int rows) const {
    Activations first = *this;
    for (Tensor* tensor :
         {&first.residual, &first.queries, &first.keys, &first.values, &first.attended,
          &first.sublayer, &first.router, &first.gate, &first.up}) {
      *tensor = tensor->First(rows);
    }
    return first;
  }

  // Calls visit(tensor, rows, columns) for each buffer.
  template <class Visit>
  void ForEach(const ModelConfig& config, int rows, Visit visit) {
    const int query_size = config.heads * config.head_dim;
    const int kv_size = config.kv_heads * config.head_dim;
    visit(residual, rows, config.width);
    for (Tensor* tensor : {&queries, &attended}) visit(*tensor, rows, query_size);
    for (Tensor* tensor : {&keys, &values}) visit(*tensor, rows, kv_size);
    if (config.norm_places != NormPlaces::kBefore) visit(sublayer, rows, config.width);
    visit(router, rows, config.experts.count);
    for (Tensor* tensor : {&gate, &up}) visit(*tensor, rows, config.dense_width());
    visit(logits, kLogitsRows, config.vocab_size);
  }
};

// The batch of the rows whose logits are wanted: each a sequence of one row at its own position.
Batch WantedRows(const Batch& batch) {
  Batch wanted;
  auto sequence = batch.sequences.begin();
  for (const int row : batch.logits_rows) {
    while (row >= sequence->first_row + sequence->row_count) ++sequence;
    wanted.sequences.push_back(
        {.first_row = wanted.rows(),
         .row_count = 1,
         .first_position = sequence->first_position + row - sequence->first_row,
         .block_table = sequence->block_table,
         .table_entries = sequence->table_entries});
  }
  return wanted;
}

// Whether each sequence has one row and the logits of all rows are wanted.
bool OneRowEach(const Batch& batch) {
  const size_t rows = batch.tokens.size();
  return batch.sequences.size() == rows && batch.logits_rows.size() == rows;
}

// What a pass's rows are rotated and scaled by.
class PassAngles {
 public:
  PassAngles(const ModelConfig& config, const std::vector<RopeTable>& tables,
             const std::vector<int>& positions)
      : cosines_(tables.size()), sines_(tables.size()) {
    for (size_t i = 0; i < tables.size(); ++i) {
      tables[i].Fill(positions, cosines_[i], sines_[i]);
      ropes_.push_back({.pairs = config.ropes[i].pairs,
                        .dim = config.ropes[i].dim,
                        .cosines = cosines_[i],
                        .sines = sines_[i]});
    }
    if (config.temperature_scale == 0) return;
    for (const int position : positions) {
      const int lengths = 1 + position / config.temperature_length;
      query_scales_.push_back(static_cast<float>(1 + config.temperature_scale * Log(lengths)));
    }
  }

  const std::vector<RopeAngles>& ropes() const { return ropes_; }
  const std::vector<float>& query_scales() const { return query_scales_; }

 private:
  std::vector<std::vector<float>> cosines_;  // for each rope: [rows, dim / 2]
  std::vector<std::vector<float>> sines_;    // for each rope: [rows, dim / 2]
  std::vector<RopeAngles> ropes_;
  std::vector<float> query_scales_;  // [rows] or empty
};

}  // namespace

struct Transformer::Rep {
  ModelConfig config;
  Backend& backend;
  ModelWeights weights;
  std::vector<RopeTable> ropes;  // those of config.ropes
  BackendBuffer memory = {};     // memory of the activations, for memory_rows rows
  int memory_rows = 0;

  // The buffers for `rows` rows. Takes more memory where it is too small.
  absl::StatusOr<Activations> Arrange(int rows);
  // Appends one layer's keys and values of all rows to the cache, then adds the layer to the
  // residual stream. `appended(a)` runs in between. It may leave fewer rows in `a` to go on with,
  // unless `one_row_each` (OneRowEach): then keys are appended as rows attend to them.
  void Layer(int layer, const KvLayerView& cache, bool one_row_each, Activations& a,
             absl::FunctionRef<void(Activations&)> appended);
  // Computes the inputs of a sublayer: products of the residual stream, which is normalised first
  // unless `norm` is empty.
  void Enter(const WeightVector& norm, Tensor residual,
             absl::Span<const Backend::ProductOutput> outputs);
  // Where the output of a sublayer's last product with `weight` goes: into the residual stream, or,
  // if it is normalised before, into a.sublayer.
  Backend::ProductOutput Into(const Weight& weight, const Activations& a) const;
  // Adds a.sublayer to the residual stream, if it is normalised before.
  void Leave(const WeightVector& post_norm, const Activations& a);
  // Adds the feed-forward of a layer: one that all rows go through, experts, or both.
  void FeedForward(const LayerWeights& w, const Activations& a);
  void AddExperts(const LayerWeights& w, const Activations& a);
  // Begins a pass over `rows`, which are the rows of `wanted`, alone.
  void Narrow(absl::Span<const int> rows, const Batch& wanted, Activations& a);
  void Logits(const Activations& a, absl::FunctionRef<void(int, Tensor)> on_logits);
  // Enqueues the operations of the pass that BeginPass has begun.
  void Compute(const Batch& batch, KvCache& cache, Activations a,
               absl::FunctionRef<void(int)> on_layer,
               absl::FunctionRef<void(int, Tensor)> on_logits);
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

void Transformer::Rep::Enter(const WeightVector& norm, Tensor residual,
                             absl::Span<const Backend::ProductOutput> outputs) {
  if (norm.empty()) return backend.Product(residual, outputs);
  backend.NormProduct(residual, norm.data(), config.norm_epsilon, Backend::InputPrecision::kUsual,
                      outputs);
}

Backend::ProductOutput Transformer::Rep::Into(const Weight& weight, const Activations& a) const {
  if (config.norm_places != NormPlaces::kBefore) return {.weight = &weight, .out = a.sublayer};
  return {.weight = &weight, .out = a.residual, .accumulate = true, .scale = config.residual_scale};
}

void Transformer::Rep::Leave(const WeightVector& post_norm, const Activations& a) {
  if (post_norm.empty()) return;
  backend.AddNorm(a.sublayer, post_norm.data(), config.norm_epsilon, config.residual_scale,
                  a.residual);
}

void Transformer::Rep::Layer(int layer, const KvLayerView& cache, bool one_row_each, Activations& a,
                             absl::FunctionRef<void(Activations&)> appended) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
  const LayerConfig& kind = config.layer_kinds[static_cast<size_t>(layer)];
  const auto norm_heads = [&](const WeightVector& gain, Tensor heads) {
    const int size = config.qk_norm == QkNorm::kHead ? config.head_dim : heads.columns;
    if (!gain.empty()) backend.NormGroups(gain.data(), size, config.norm_epsilon, heads);
  };
  const auto add_bias = [&](const WeightVector& bias, Tensor out) {
    if (!bias.empty()) backend.AddBias(bias.data(), out);
  };

  Enter(w.attention_norm, a.residual,
        {{w.query.get(), a.queries}, {w.key.get(), a.keys}, {w.value.get(), a.values}});
  add_bias(w.query_bias, a.queries);
  add_bias(w.key_bias, a.keys);
  add_bias(w.value_bias, a.values);
  norm_heads(w.query_norm, a.queries);
  norm_heads(w.key_norm, a.keys);

  const AttentionRule rule = {.scale = config.attention_scale,
                              .window = kind.window,
                              .sinks = w.sinks.empty() ? nullptr : w.sinks.data()};
  if (one_row_each) {
    backend.AppendAndAttend(kind.rope, a.queries, a.keys, a.values, cache, rule, a.attended);
    appended(a);
  } else {
    backend.RotateAndAppend(kind.rope, a.queries, a.keys, a.values, cache);
    appended(a);
    if (a.residual.rows == 0) return;
    backend.Attention(rule, a.queries, cache, a.attended);
  }
  const Backend::ProductOutput attention_output = Into(*w.attention_output, a);
  backend.Product(a.attended, {attention_output});
  add_bias(w.attention_output_bias, attention_output.out);
  Leave(w.attention_post_norm, a);

  FeedForward(w, a);
  Leave(w.feed_forward_post_norm, a);
}

void Transformer::Rep::FeedForward(const LayerWeights& w, const Activations& a) {
  const bool dense = w.down != nullptr;
  // Experts add to the residual stream, which is the other feed-forward's input as well.
  if (dense) Enter(w.feed_forward_norm, a.residual, {{w.gate.get(), a.gate}, {w.up.get(), a.up}});
  if (w.experts.router != nullptr) AddExperts(w, a);
  if (dense) backend.GatedProduct(config.gate_function, a.gate, a.up, {Into(*w.down, a)});
}

void Transformer::Rep::AddExperts(const LayerWeights& w, const Activations& a) {
  BATON_CHECK(config.norm_places == NormPlaces::kBefore, "experts add to the residual stream");
  // A rounded logit may choose another expert, and a finer input costs a small product more.
  backend.NormProduct(a.residual, w.feed_forward_norm.data(), config.norm_epsilon,
                      Backend::InputPrecision::kFine, {{w.experts.router.get(), a.router}});
  if (!w.experts.router_bias.empty()) backend.AddBias(w.experts.router_bias.data(), a.router);
  backend.AddExperts(a.residual, w.feed_forward_norm.data(), config.norm_epsilon, a.router,
                     w.experts.View(config), config.residual_scale, a.residual);
}

void Transformer::Rep::Narrow(absl::Span<const int> rows, const Batch& wanted, Activations& a) {
  const int count = wanted.rows();
  if (count > 0) {
    backend.CopyRows(a.residual, rows, a.residual.First(count));
    backend.CopyRows(a.queries, rows, a.queries.First(count));
    backend.BeginPass({.batch = &wanted});
  }
  a = a.First(count);
}

void Transformer::Rep::Logits(const Activations& a,
                              absl::FunctionRef<void(int, Tensor)> on_logits) {
  for (int first = 0; first < a.residual.rows; first += kLogitsRows) {
    const int count = std::min(kLogitsRows, a.residual.rows - first);
    const Tensor rows = {a.residual.Row(first), count, config.width};
    const Tensor out = a.logits.First(count);
    // The head's rounding alone would be half of the whole model's divergence, and a finer input
    // costs only one product more.
    backend.NormProduct(rows, weights.output_norm.data(), config.norm_epsilon,
                        Backend::InputPrecision::kFine, {{&weights.head(), out}});
    if (config.logit_scale != 1) backend.Scale(1 / config.logit_scale, out);
    if (config.logit_soft_cap != 0) backend.SoftCap(config.logit_soft_cap, out);
    on_logits(first, out);
  }
}

Transformer::Transformer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Transformer::~Transformer() = default;

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Load(const GgufFile& file,
                                                               Backend& backend, Progress progress,
                                                               int max_model_len) {
  BATON_ASSIGN_OR_RETURN(ModelConfig config, ModelConfig::FromGguf(file, max_model_len));
  BATON_ASSIGN_OR_RETURN(ModelWeights weights, ModelWeights::Load(file, config, backend, progress));
  std::vector<RopeTable> ropes;
  for (const RopeConfig& rope : config.ropes) {
    ropes.emplace_back(
        rope, rope.divisors == RopeDivisors::kNone ? std::vector<float>() : weights.rope_divisors);
  }
  return std::unique_ptr<Transformer>(
      new Transformer(std::make_unique<Rep>(Rep{.config = std::move(config),
                                                .backend = backend,
                                                .weights = std::move(weights),
                                                .ropes = std::move(ropes)})));
}

const ModelConfig& Transformer::config() const { return rep_->config; }
const ModelWeights& Transformer::weights() const { return rep_->weights; }

KvLayout Transformer::MakeKvLayout(int block_size, KvType dtype) const {
  return rep_->config.MakeKvLayout(block_size, dtype);
}

absl::Status Transformer::Reserve(int max_rows) { return rep_->Arrange(max_rows).status(); }

void Transformer::Forward(const Batch& batch, KvCache& cache, absl::FunctionRef<void(int)> on_layer,
                          absl::Span<float> logits) {
  Backend& backend = rep_->backend;
  const auto vocab_size = static_cast<size_t>(rep_->config.vocab_size);
  BATON_CHECK(logits.size() == batch.logits_rows.size() * vocab_size,
              "logits must be [logits_rows, vocab_size]");
  Enqueue(batch, cache, /*recordings=*/nullptr, on_layer, [&](int first, Tensor rows) {
    backend.Download(rows.data, static_cast<size_t>(rows.rows) * vocab_size * sizeof(float),
                     logits.data() + static_cast<size_t>(first) * vocab_size);
  });
  backend.Synchronize();
}

void Transformer::Enqueue(const Batch& batch, KvCache& cache, PassRecordings* recordings,
                          absl::FunctionRef<void(int)> on_layer,
                          absl::FunctionRef<void(int, Tensor)> on_logits) {
  const ModelConfig& config = rep_->config;
  const bool recorded = recordings != nullptr && OneRowEach(batch);
  const int rows = recorded ? recordings->PassRows(batch.rows()) : batch.rows();
  std::vector<int> positions;  // [rows]
  for (const BatchSequence& s : batch.sequences) {
    const int end = s.first_position + s.row_count;
    BATON_CHECK(s.row_count > 0 && s.first_position >= 0 && end <= config.context_length,
                "positions must be below context_length", end - 1);
    BATON_CHECK(s.table_entries >= cache.layout().TableEntriesFor(end), "block table long enough");
    for (int i = s.first_position; i < end; ++i) positions.push_back(i);
  }
  positions.resize(static_cast<size_t>(rows));
  const PassAngles angles(config, rep_->ropes, positions);
  rep_->backend.BeginPass({.batch = &batch,
                           .recorded = recorded,
                           .padding_rows = rows - batch.rows(),
                           .ropes = angles.ropes(),
                           .query_scales = angles.query_scales()});

  BATON_CHECK(!recorded || rows <= rep_->memory_rows, "recorded passes are of reserved rows");
  const absl::StatusOr<Activations> activations = rep_->Arrange(rows);
  BATON_CHECK(activations.ok(), "memory for the rows: Reserve them before");
  const auto compute = [&] { rep_->Compute(batch, cache, *activations, on_layer, on_logits); };
  if (!recorded) return compute();
  if (recordings->Run(compute)) return;
  for (int layer = 0; layer < config.layers; ++layer) on_layer(layer);
}

void Transformer::Rep::Compute(const Batch& batch, KvCache& cache, Activations a,
                               absl::FunctionRef<void(int)> on_layer,
                               absl::FunctionRef<void(int, Tensor)> on_logits) {
  backend.Embed(*weights.embedding, a.residual);
  if (config.embedding_scale != 1) backend.Scale(config.embedding_scale, a.residual);
  const Batch wanted = WantedRows(batch);
  const bool one_row_each = OneRowEach(batch);
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool last = layer == config.layers - 1;
    Layer(layer, cache.LayerView(layer), one_row_each, a, [&](Activations& rows) {
      if (cache.host_memory()) backend.Synchronize();
      on_layer(layer);
      // After the last layer's keys and values only the wanted rows go on.
      if (last && wanted.rows() < batch.rows()) Narrow(batch.logits_rows, wanted, rows);
    });
  }
  if (wanted.rows() > 0) Logits(a, on_logits);
}

}  // namespace baton
