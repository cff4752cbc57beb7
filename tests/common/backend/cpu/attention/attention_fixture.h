// Sequences of random keys, values and queries, and the kernel that is run over them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "common/backend/cpu/attention/attention.h"
#include "common/backend/cpu/kernels/kernels.h"
#include "common/base/float_types.h"
#include "tests/support/stored_head.h"

namespace baton {

struct AttentionShape {
  int head_dim;
  int heads;
  int kv_heads;
  int block_size;
  KvType dtype;
  int tokens;
};

// Without a window or sinks.
inline AttentionRule UsualRule(const AttentionShape& shape) {
  return {.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim))};
}

// The keys, values and queries of one sequence, and its one-layer cache, in blocks of a cache that
// sequences may share.
class AttentionSequence {
 public:
  AttentionSequence(const AttentionShape& shape, int seed) : shape_(shape) {
    keys_.resize(Elements(shape.kv_heads));
    values_.resize(keys_.size());
    queries_.resize(Elements(shape.heads));
    std::mt19937 random(static_cast<unsigned>(seed));
    std::normal_distribution<float> normal(0, 1.5);
    for (std::vector<float>* floats : {&keys_, &values_, &queries_}) {
      for (float& x : *floats) x = normal(random);
    }
  }

  float* Key(int token, int kv_head) { return At(keys_, token, kv_head, shape_.kv_heads); }
  float* Value(int token, int kv_head) { return At(values_, token, kv_head, shape_.kv_heads); }
  float* Query(int token, int head) { return At(queries_, token, head, shape_.heads); }
  int BlockCount() const { return (shape_.tokens + shape_.block_size - 1) / shape_.block_size; }

  // A head of keys or values as the cache holds it.
  const float* StoredKey(int token, int kv_head) {
    return At(Stored(keys_, stored_keys_), token, kv_head, shape_.kv_heads);
  }
  const float* StoredValue(int token, int kv_head) {
    return At(Stored(values_, stored_values_), token, kv_head, shape_.kv_heads);
  }

 private:
  size_t Elements(int heads) const {
    return static_cast<size_t>(shape_.tokens) * static_cast<size_t>(heads) *
           static_cast<size_t>(shape_.head_dim);
  }
  float* At(std::vector<float>& floats, int token, int head, int heads) const {
    return floats.data() + (token * heads + head) * shape_.head_dim;
  }

  // The cache's contents, made at the first call: later changes do not show.
  std::vector<float>& Stored(const std::vector<float>& floats, std::vector<float>& stored) const {
    if (!stored.empty()) return stored;
    for (size_t i = 0; i < floats.size(); i += static_cast<size_t>(shape_.head_dim)) {
      if (IsQuantised(shape_.dtype)) {
        const StoredHead head = StoreHead(shape_.dtype, &floats[i], shape_.head_dim);
        stored.insert(stored.end(), head.stored.begin(), head.stored.end());
        continue;
      }
      for (size_t d = i; d < i + static_cast<size_t>(shape_.head_dim); ++d) {
        const float x = floats[d];
        stored.push_back(shape_.dtype == KvType::kF16    ? F16ToF32(F32ToF16(x))
                         : shape_.dtype == KvType::kBf16 ? Bf16ToF32(F32ToBf16(x))
                                                         : x);
      }
    }
    return stored;
  }

  AttentionShape shape_;
  std::vector<float> keys_;
  std::vector<float> values_;
  std::vector<float> queries_;
  std::vector<float> stored_keys_;
  std::vector<float> stored_values_;
};

// Runs passes over sequences as an engine would: the cache has only the tokens that passes
// appended.
class AttentionRunner {
 public:
  AttentionRunner(const AttentionShape& shape, std::vector<AttentionSequence>& sequences,
                  CpuIsa isa, int threads)
      : AttentionRunner(shape, sequences, isa, threads, UsualRule(shape)) {}
  AttentionRunner(const AttentionShape& shape, std::vector<AttentionSequence>& sequences,
                  CpuIsa isa, int threads, const AttentionRule& rule)
      : shape_(shape),
        sequences_(sequences),
        kernels_(KernelsFor(isa)),
        pool_(threads, {}),
        rule_(rule) {
    int blocks = 0;
    for (AttentionSequence& sequence : sequences) blocks += sequence.BlockCount();
    view_ = {.block_size = shape.block_size,
             .kv_heads = shape.kv_heads,
             .head_dim = shape.head_dim,
             .dtype = shape.dtype,
             .groups = 2,  // another group of layers has blocks of its own
             .group = 1};
    const size_t half = view_.part().bytes();
    // Every pattern of ones is a NaN, so that memory that nobody wrote would show in the result.
    // That goes for the block before the first too, which is none (kNoBlock).
    bytes_.assign(static_cast<size_t>(blocks + 1) * 2 * half, 0xff);
    view_.blocks = bytes_.data() + 2 * half;
    view_.block_bytes = 2 * half;
    view_.values_offset = half;
    for (size_t i = 0; i < sequences.size(); ++i) {
      tables_.emplace_back();
      for (int block = 0; block < sequences[i].BlockCount(); ++block) {
        tables_.back().push_back(kOtherGroups);
        tables_.back().push_back(--blocks);
      }
      given_back_.push_back(0);
      out_.emplace_back(static_cast<size_t>(shape.tokens * shape.heads * shape.head_dim), -1.0f);
    }
  }

  struct Rows {
    int sequence;
    int first;
    int count;
  };
  void Pass(const std::vector<Rows>& all) {
    const int columns = shape_.heads * shape_.head_dim;
    std::vector<BatchSequence> batch;
    std::vector<float> queries;
    for (const Rows& rows : all) {
      batch.push_back({static_cast<int>(queries.size()) / columns, rows.count, rows.first,
                       tables_[static_cast<size_t>(rows.sequence)].data()});
      const float* first = sequences_[static_cast<size_t>(rows.sequence)].Query(rows.first, 0);
      queries.insert(queries.end(), first, first + rows.count * columns);
      for (int token = rows.first; token < rows.first + rows.count; ++token) Append(rows, token);
    }
    std::vector<float> out(queries.size());
    const int row_count = static_cast<int>(queries.size()) / columns;
    AttendRows(kernels_, pool_, batch, rule_, {queries.data(), row_count, columns}, view_,
               {out.data(), row_count, columns}, scratch_);
    const float* from = out.data();
    for (const Rows& rows : all) {
      std::copy_n(from, rows.count * columns,
                  out_[static_cast<size_t>(rows.sequence)].data() + rows.first * columns);
      from += rows.count * columns;
    }
  }

  // No later row sees a token before `end`: others write into the blocks before it.
  void GiveBackBefore(int sequence, int end) {
    std::vector<int32_t>& table = tables_[static_cast<size_t>(sequence)];
    for (int& token = given_back_[static_cast<size_t>(sequence)]; token < end; ++token) {
      int32_t& block = table[view_.TableIndex(token)];
      const int row = token % view_.block_size;
      for (uint8_t* const to : {view_.KeyRow(block, row), view_.ValueRow(block, row)}) {
        std::fill_n(to, view_.row_bytes(), uint8_t{0xff});
      }
      for (uint8_t* const to : {view_.KeyScales(block, row), view_.ValueScales(block, row)}) {
        std::fill_n(to, view_.part().scale_bytes(), uint8_t{0xff});
      }
      if (row + 1 == view_.block_size) block = -1;
    }
  }

  const std::vector<float>& out(int sequence) const { return out_[static_cast<size_t>(sequence)]; }
  const float* Out(int sequence, int token, int head) const {
    return out(sequence).data() + (token * shape_.heads + head) * shape_.head_dim;
  }

 private:
  // A block of another group, which nobody may read for this layer: it is out of range.
  static constexpr int32_t kOtherGroups = 1 << 20;

  void Append(const Rows& rows, int token) {
    AttentionSequence& sequence = sequences_[static_cast<size_t>(rows.sequence)];
    const int32_t block = tables_[static_cast<size_t>(rows.sequence)][view_.TableIndex(token)];
    const int row = token % view_.block_size;
    Store(sequence.Key(token, 0), view_.KeyRow(block, row), view_.KeyScales(block, row));
    Store(sequence.Value(token, 0), view_.ValueRow(block, row), view_.ValueScales(block, row));
  }
  void Store(const float* x, uint8_t* row, uint8_t* scales) const {
    if (IsQuantised(shape_.dtype)) {
      StoreHeads(view_.part(), x, row, scales);
      return;
    }
    for (int i = 0; i < shape_.kv_heads * shape_.head_dim; ++i) {
      const uint16_t half = shape_.dtype == KvType::kF16 ? F32ToF16(x[i]) : F32ToBf16(x[i]);
      if (shape_.dtype == KvType::kF32) {
        std::memcpy(row + 4 * i, &x[i], sizeof(float));
      } else {
        std::memcpy(row + 2 * i, &half, sizeof(half));
      }
    }
  }

  AttentionShape shape_;
  std::vector<AttentionSequence>& sequences_;
  const CpuKernels& kernels_;
  ThreadPool pool_;
  AttentionRule rule_;
  KvLayerView view_;
  std::vector<uint8_t> bytes_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<int> given_back_;  // [sequences]: tokens
  std::vector<std::vector<float>> out_;
  AttentionScratch scratch_;
};

}  // namespace baton
