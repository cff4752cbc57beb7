#include "common/engine/first_steps.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/base/max_choices.h"
#include "common/base/status_macros.h"
#include "common/engine/schedule.h"
#include "common/kv/cache.h"

namespace baton {
namespace {

// Builds a batch over blocks that start at 0. A chunk has blocks of its own; sequences of one row
// share blocks, each at a position of its own.
class StepBuilder {
 public:
  StepBuilder(const KvLayout& layout, int context_length)
      : layout_(layout), context_length_(context_length) {}

  void AddSingleRows(int count) {
    const int positions = std::min(layout_.block_size, context_length_);
    for (int i = 0; i < count; ++i) {
      if (i % positions == 0) ++blocks_;
      Add({blocks_ - 1}, i % positions, 1);
    }
  }

  void AddChunk(int rows) {
    for (int done = 0; done < rows;) {
      const int count = std::min(rows - done, context_length_);
      std::vector<int32_t> table;
      for (int i = 0; i < layout_.BlocksFor(count); ++i) table.push_back(blocks_++);
      Add(std::move(table), 0, count);
      done += count;
    }
  }

  int blocks() const { return blocks_; }

  // The batch points into the builder's block tables.
  Batch Build() const {
    Batch batch;
    for (size_t s = 0; s < tables_.size(); ++s) {
      const auto& [position, count] = ranges_[s];
      batch.sequences.push_back(
          {batch.rows(), count, position, tables_[s].data(), static_cast<int>(tables_[s].size())});
      batch.tokens.resize(batch.tokens.size() + static_cast<size_t>(count));
      if (s < kLogitsRows) batch.logits_rows.push_back(batch.rows() - 1);
    }
    return batch;
  }

 private:
  void Add(std::vector<int32_t> table, int position, int count) {
    tables_.push_back(std::move(table));
    ranges_.emplace_back(position, count);
  }

  const KvLayout layout_;
  const int context_length_;
  int blocks_ = 0;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::pair<int, int>> ranges_;  // first position, rows
};

}  // namespace

int LargestStepRows(const EngineOptions& options) {
  return std::max(options.max_num_batched_tokens, options.max_num_seqs + kChunkTokens);
}

int MostSamples(const EngineOptions& options) {
  return std::max(options.max_num_seqs, static_cast<int>(kMaxChoices));
}

StepSamplerOptions SamplerOptionsOf(const EngineOptions& options, const ModelConfig& config,
                                    int max_rows) {
  return {
      .vocab_size = config.vocab_size,
      .end_of_generation_ids = options.end_of_generation_ids,
      .max_rows = std::max(max_rows, MostSamples(options)),
      .max_model_len = options.max_model_len > 0 ? options.max_model_len : config.context_length};
}

absl::Status RunLargestStep(const EngineOptions& options, Transformer& model, Backend& backend) {
  const int rows = LargestStepRows(options);
  BATON_RETURN_IF_ERROR(model.Reserve(rows));
  KvLayout layout = model.MakeKvLayout(options.block_size, options.kv_dtype);
  layout.groups = {};  // needs no more memory than the engine's
  StepBuilder largest(layout, model.config().context_length);
  largest.AddSingleRows(options.max_num_seqs - 1);
  largest.AddChunk(rows - (options.max_num_seqs - 1));
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                         KvCache::Create(backend, layout, largest.blocks()));
  std::vector<StepBuilder> steps = {std::move(largest)};
  const std::unique_ptr<PassRecordings> recordings = backend.MakeRecordings();
  const int most_decodes = recordings->PassRows(options.max_num_seqs);
  for (int decodes = 1; decodes <= most_decodes; decodes = recordings->PassRows(decodes + 1)) {
    StepBuilder& step = steps.emplace_back(layout, model.config().context_length);
    step.AddSingleRows(std::min(decodes, options.max_num_seqs));
  }
  for (const StepBuilder& step : steps) {
    const Batch batch = step.Build();
    std::vector<float> logits(batch.logits_rows.size() *
                              static_cast<size_t>(model.config().vocab_size));
    model.Forward(
        batch, *cache, [](int) {}, absl::MakeSpan(logits));
  }
  return absl::OkStatus();
}

void RecordSteps(const EngineOptions& options, Transformer& model, KvCache& cache,
                 StepSampler& sampler, PassRecordings& recordings) {
  const KvLayout& layout = cache.layout();
  const int most_sequences = std::min(options.max_num_seqs, cache.block_count());
  const auto most_tokens = static_cast<int>(std::min<int64_t>(
      options.max_model_len,
      layout.groups.TokensIn(cache.block_count(), layout.block_size, LargestStepRows(options))));
  const SamplingParams greedy = {.temperature = 0};
  const TokenCounts no_counts(greedy, {}, 0);
  const int64_t all_tokens = int64_t{cache.block_count()} * layout.block_size;
  for (const RecordedKind& kind : recordings.Kinds(most_sequences, most_tokens, all_tokens)) {
    const int rows = std::min(kind.rows, most_sequences);
    // Each sequence has one token, in a block of its own.
    const int entries = layout.TableEntriesFor(1);
    std::vector<std::vector<int32_t>> tables;
    Batch batch;
    batch.sampled_ids = sampler.sampled_ids();
    batch.recorded_tokens = kind.tokens;
    for (int row = 0; row < rows; ++row) {
      tables.emplace_back(entries, row);
      batch.tokens.push_back(InputToken::Id(0));
      batch.sequences.push_back({.first_row = row,
                                 .row_count = 1,
                                 .block_table = tables.back().data(),
                                 .table_entries = entries});
      batch.logits_rows.push_back(row);
    }
    const std::vector<SamplingRow> samples(
        static_cast<size_t>(rows),
        {.behind_guess = true, .sampling = &greedy, .counts = &no_counts});
    // The first step of a kind runs as it is, the second is recorded.
    for (int step = 0; step < 2; ++step) {
      sampler.Begin(samples);
      model.Enqueue(
          batch, cache, &recordings, [](int) {},
          [&](int first_row, Tensor logits) { sampler.Sample(first_row, logits); });
      sampler.End();
      sampler.Take();
    }
  }
}

}  // namespace baton
