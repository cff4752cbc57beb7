#include "tests/support/model_runner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

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

absl::Status LoadStatus(const GgufFile& file) {
  const auto backend = OrDie(MakeBackend({.device = "cpu", .threads = 1}));
  return Transformer::Load(file, *backend, [](double) {}).status();
}

ModelRunner::ModelRunner(const ModelRunnerOptions& options)
    : backend_(OrDie(MakeBackend(options.backend))) {
  std::optional<GgufFile> opened;
  if (options.file == nullptr) opened = OrDie(GgufFile::Open(options.path));
  const GgufFile& file = options.file == nullptr ? *opened : *options.file;
  transformer_ = OrDie(Transformer::Load(
      file, *backend_, [](double) {}, options.max_model_len));
  const KvLayout layout = transformer_->MakeKvLayout(options.block_size, options.kv_dtype);
  const int blocks = layout.TableEntriesFor(options.max_tokens) + 8 * layout.groups.count();
  cache_ = OrDie(KvCache::Create(*backend_, layout, blocks));
  constexpr uint8_t kNan = 0xff;  // this value in every byte is a NaN of every type
  const std::vector<uint8_t> nans(layout.block_bytes(), kNan);
  for (int block = 0; block < blocks; ++block) {
    backend_->Upload(nans.data(), nans.size(), cache_->Block(block));
  }
  // Every third block, then those between, so that no test passes only because blocks are
  // contiguous.
  for (int start = 0; start < 3; ++start) {
    for (int block = start; block < blocks; block += 3) free_blocks_.push_back(block);
  }
}

int ModelRunner::AddSequence() {
  block_tables_.emplace_back();
  lengths_.push_back(0);
  return static_cast<int>(lengths_.size()) - 1;
}

void ModelRunner::Extend(int sequence, int tokens) {
  std::vector<int32_t>& table = block_tables_[static_cast<size_t>(sequence)];
  while (static_cast<int>(table.size()) < cache_->layout().TableEntriesFor(tokens)) {
    BATON_CHECK(!free_blocks_.empty(), "max_tokens is enough for the test");
    table.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
}

template <class Visit>
void ModelRunner::ForEachRow(int sequence, const Visit& visit) const {
  const KvLayout& layout = cache_->layout();
  const std::vector<int32_t>& table = block_tables_[static_cast<size_t>(sequence)];
  for (int layer = 0; layer < layout.layers; ++layer) {
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = 0; token < length(sequence); ++token) {
        const int32_t block = table[layout.TableIndex(layer, token)];
        const int in_block = token % layout.block_size;
        uint8_t* const bytes = cache_->Block(block);
        visit(bytes + layout.RowOffset(layer, part, in_block), layout.row_bytes());
        if (layout.scale_bytes() == 0) continue;
        visit(bytes + layout.ScaleOffset(layer, part, in_block), layout.scale_bytes());
      }
    }
  }
}

int ModelRunner::AddSequenceSharing(int other, int tokens) {
  const KvLayout& layout = cache_->layout();
  BATON_CHECK(tokens % layout.block_size == 0 && tokens <= length(other),
              "tokens must be whole blocks of the other sequence");
  const int sequence = AddSequence();
  const auto shared = block_tables_[static_cast<size_t>(other)].begin();
  block_tables_[static_cast<size_t>(sequence)].assign(shared,
                                                      shared + layout.TableEntriesFor(tokens));
  lengths_[static_cast<size_t>(sequence)] = tokens;
  return sequence;
}

int ModelRunner::AddSequenceWithKv(const std::vector<uint8_t>& kv, int tokens) {
  BATON_CHECK(kv.size() == cache_->layout().bytes_per_token() * static_cast<size_t>(tokens),
              "`kv` must have the bytes of the tokens");
  const int sequence = AddSequence();
  Extend(sequence, tokens);
  lengths_[static_cast<size_t>(sequence)] = tokens;
  const uint8_t* from = kv.data();
  ForEachRow(sequence, [&](uint8_t* row, size_t bytes) {
    backend_->Upload(from, bytes, row);
    from += bytes;
  });
  return sequence;
}

void ModelRunner::Release(int sequence) {
  std::vector<int32_t>& table = block_tables_[static_cast<size_t>(sequence)];
  free_blocks_.insert(free_blocks_.end(), table.begin(), table.end());
  table.clear();
  lengths_[static_cast<size_t>(sequence)] = 0;
}

std::vector<float> ModelRunner::Run(const std::vector<Rows>& rows, bool all_logits) {
  Batch batch;
  for (const Rows& entry : rows) {
    const size_t sequence = static_cast<size_t>(entry.sequence);
    const int count = static_cast<int>(entry.tokens.size());
    Extend(entry.sequence, lengths_[sequence] + count);
    const std::vector<int32_t>& table = block_tables_[sequence];
    batch.sequences.push_back(
        {batch.rows(), count, lengths_[sequence], table.data(), static_cast<int>(table.size())});
    for (const int32_t token : entry.tokens) {
      if (all_logits) batch.logits_rows.push_back(static_cast<int>(batch.tokens.size()));
      batch.tokens.push_back(InputToken::Id(token));
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
  std::vector<uint8_t> bytes(cache_->layout().bytes_per_token() *
                             static_cast<size_t>(length(sequence)));
  uint8_t* to = bytes.data();
  ForEachRow(sequence, [&](const uint8_t* row, size_t row_bytes) {
    backend_->Download(row, row_bytes, to);
    to += row_bytes;
  });
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
