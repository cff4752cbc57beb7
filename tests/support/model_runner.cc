#include "tests/support/model_runner.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/base/check.h"

namespace baton {
namespace {

template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

}  // namespace

std::string TestModelPath() {
  const char* path = std::getenv("BATON_TEST_MODEL");
  return path == nullptr ? "" : path;
}

ModelRunner::ModelRunner(const ModelRunnerOptions& options)
    : backend_(OrDie(MakeBackend(options.backend))) {
  const GgufFile file = OrDie(GgufFile::Open(options.path));
  transformer_ = OrDie(Transformer::Load(file, *backend_, [](double) {}));
  const KvLayout layout = transformer_->MakeKvLayout(options.block_size, options.kv_dtype);
  const int blocks = layout.BlocksFor(options.max_tokens) + 8;
  cache_ = OrDie(KvCache::Create(*backend_, layout, blocks));
  // Every third block, then the ones between, so that no test passes by contiguous blocks alone.
  for (int start = 0; start < 3; ++start) {
    for (int block = start; block < blocks; block += 3) free_blocks_.push_back(block);
  }
}

int ModelRunner::AddSequence() {
  block_tables_.emplace_back();
  lengths_.push_back(0);
  return static_cast<int>(lengths_.size()) - 1;
}

std::vector<float> ModelRunner::Run(const std::vector<Rows>& rows, bool all_logits) {
  Batch batch;
  for (const Rows& entry : rows) {
    const size_t sequence = static_cast<size_t>(entry.sequence);
    const int count = static_cast<int>(entry.tokens.size());
    std::vector<int32_t>& table = block_tables_[sequence];
    while (static_cast<int>(table.size()) <
           cache_->layout().BlocksFor(lengths_[sequence] + count)) {
      BATON_CHECK(!free_blocks_.empty(), "max_tokens is enough for the test");
      table.push_back(free_blocks_.back());
      free_blocks_.pop_back();
    }
    batch.sequences.push_back({batch.rows(), count, lengths_[sequence], table});
    for (const int32_t token : entry.tokens) {
      if (all_logits) batch.logits_rows.push_back(batch.rows());
      batch.token_ids.push_back(token);
    }
    if (!all_logits) batch.logits_rows.push_back(batch.rows() - 1);
    lengths_[sequence] += count;
  }
  std::vector<float> logits(batch.logits_rows.size() * static_cast<size_t>(vocab_size()));
  transformer_->Forward(
      batch, *cache_, [](int) {}, absl::MakeSpan(logits));
  return logits;
}

std::vector<float> ModelRunner::Forward(const std::vector<Rows>& rows) { return Run(rows, true); }

std::vector<float> ModelRunner::Append(int sequence, const std::vector<int32_t>& tokens) {
  return Run({{sequence, tokens}}, false);
}

std::vector<uint8_t> ModelRunner::KvBytes(int sequence) const {
  const KvLayout& layout = cache_->layout();
  std::vector<uint8_t> bytes;
  for (int layer = 0; layer < layout.layers; ++layer) {
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = 0; token < length(sequence); ++token) {
        const int32_t block = block_tables_[static_cast<size_t>(sequence)]
                                           [static_cast<size_t>(token / layout.block_size)];
        const uint8_t* row =
            cache_->Block(block) + layout.RowOffset(layer, part, token % layout.block_size);
        bytes.insert(bytes.end(), row, row + layout.row_bytes());
      }
    }
  }
  return bytes;
}

int ArgMax(const float* values, int count) {
  int best = 0;
  for (int i = 1; i < count; ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

std::vector<double> LogSoftmax(const float* logits, int count) {
  const double max = logits[ArgMax(logits, count)];
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += std::exp(logits[i] - max);
  std::vector<double> result(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) result[static_cast<size_t>(i)] = logits[i] - max - std::log(sum);
  return result;
}

}  // namespace baton
