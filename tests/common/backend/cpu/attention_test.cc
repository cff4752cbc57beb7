#include "common/backend/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/backend/cpu/kernels.h"

namespace baton {
namespace {

constexpr int kHeadDim = 16;

// A cache of one layer with F32 elements, and the keys, values and queries that a test puts in.
class Paged {
 public:
  Paged(int tokens, int heads, int kv_heads, int block_size)
      : tokens_(tokens), heads_(heads), kv_heads_(kv_heads) {
    const int blocks = (tokens + block_size - 1) / block_size;
    for (int i = 0; i < blocks; ++i) table_.push_back(blocks - 1 - i);
    const size_t half = static_cast<size_t>(block_size * kv_heads * kHeadDim) * sizeof(float);
    bytes_.resize(static_cast<size_t>(blocks) * 2 * half);
    // What nobody wrote must never be read: it would make every result NaN.
    std::fill_n(reinterpret_cast<float*>(bytes_.data()), bytes_.size() / sizeof(float),
                std::numeric_limits<float>::quiet_NaN());
    view_ = {.blocks = bytes_.data(),
             .block_bytes = 2 * half,
             .keys_offset = 0,
             .values_offset = half,
             .block_size = block_size,
             .kv_heads = kv_heads,
             .head_dim = kHeadDim,
             .dtype = KvDtype::kF32};
    queries_.resize(static_cast<size_t>(tokens * heads * kHeadDim));
  }

  float* Key(int token, int kv_head) {
    return reinterpret_cast<float*>(view_.KeyRow(Block(token), token % view_.block_size)) +
           kv_head * kHeadDim;
  }
  float* Value(int token, int kv_head) {
    return reinterpret_cast<float*>(view_.ValueRow(Block(token), token % view_.block_size)) +
           kv_head * kHeadDim;
  }
  float* Query(int token, int head) { return queries_.data() + (token * heads_ + head) * kHeadDim; }

  // The contexts of tokens [first, tokens), [rows, heads * kHeadDim].
  std::vector<float> Attend(int first, CpuIsa isa, int threads) {
    const int rows = tokens_ - first;
    const PassSequence sequence{0, rows, first, table_.data()};
    Pass pass;
    pass.sequences = absl::MakeConstSpan(&sequence, 1);
    std::vector<float> out(static_cast<size_t>(rows * heads_ * kHeadDim));
    ThreadPool pool(threads, {});
    std::vector<AttentionScratch> scratch(static_cast<size_t>(threads));
    AttendRows(KernelsFor(isa), pool, pass, {Query(first, 0), rows, heads_ * kHeadDim}, view_,
               {out.data(), rows, heads_ * kHeadDim}, scratch);
    return out;
  }

 private:
  int32_t Block(int token) const { return table_[static_cast<size_t>(token / view_.block_size)]; }

  int tokens_;
  int heads_;
  int kv_heads_;
  std::vector<int32_t> table_;
  std::vector<uint8_t> bytes_;
  std::vector<float> queries_;
  KvLayerView view_;
};

std::vector<CpuIsa> InstructionSets() {
  std::vector<CpuIsa> sets;
  for (const CpuIsa isa : kAllCpuIsas) {
    if (CpuHas(isa)) sets.push_back(isa);
  }
  return sets;
}

// Four tokens with values 10, 20, 1, 5. Heads average over the tokens at even positions (from 1),
// the last token, the first token, all tokens, up to and including the current one. A softmax
// always averages over something: the "none" of the first token is a sink before it, which holds
// zero and which the first head prefers to tokens at odd positions.
TEST(Attention, GivesTheContextsOfTheWorkedExample) {
  constexpr float kStrong = 400;  // a score 100 above the others: they weigh nothing
  const std::vector<float> values = {0, 10, 20, 1, 5};  // the sink's first
  Paged paged(/*tokens=*/5, /*heads=*/4, /*kv_heads=*/1, /*block_size=*/16);
  for (int token = 0; token < 5; ++token) {
    const bool sink = token == 0;
    // A key says: even position, order, the sink itself.
    std::fill_n(paged.Key(token, 0), kHeadDim, 0.0f);
    paged.Key(token, 0)[0] = sink ? 0.0f : token % 2 == 0 ? 1.0f : -1.0f;
    paged.Key(token, 0)[1] = static_cast<float>(token);
    paged.Key(token, 0)[2] = sink ? 1.0f : 0.0f;
    std::fill_n(paged.Value(token, 0), kHeadDim, values[static_cast<size_t>(token)]);
    paged.Query(token, 0)[0] = kStrong;
    paged.Query(token, 1)[1] = kStrong;
    paged.Query(token, 2)[1] = -kStrong;
    for (const int head : {2, 3}) paged.Query(token, head)[2] = -100 * kStrong;
  }
  const float kNone = 0;
  const float expected[4][4] = {
      {kNone, 10, 10, 10}, {20, 20, 10, 15}, {20, 1, 10, 31.0f / 3}, {12.5, 5, 10, 9}};
  for (const CpuIsa isa : InstructionSets()) {
    const std::vector<float> contexts = paged.Attend(/*first=*/1, isa, /*threads=*/2);
    for (int token = 0; token < 4; ++token) {
      for (int head = 0; head < 4; ++head) {
        EXPECT_NEAR(contexts[static_cast<size_t>((token * 4 + head) * kHeadDim)],
                    expected[token][head], 1e-5)
            << CpuIsaName(isa) << ", token " << token + 1 << ", head " << head + 1;
      }
    }
  }
}

// Random keys over several segments, against the definition in double.
TEST(Attention, IsTheSoftmaxAverageOfTheValuesUpToEachPosition) {
  constexpr int kTokens = 700;
  constexpr int kHeads = 4;
  constexpr int kKvHeads = 2;
  Paged paged(kTokens, kHeads, kKvHeads, /*block_size=*/32);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  for (int token = 0; token < kTokens; ++token) {
    for (int i = 0; i < kKvHeads * kHeadDim; ++i) paged.Key(token, 0)[i] = normal(random);
    for (int i = 0; i < kKvHeads * kHeadDim; ++i) paged.Value(token, 0)[i] = normal(random);
    for (int i = 0; i < kHeads * kHeadDim; ++i) paged.Query(token, 0)[i] = normal(random);
  }
  const std::vector<float> out = paged.Attend(0, CpuIsa::kPortable, 1);
  for (const int token : {0, 1, 15, 16, 255, 256, 257, 511, 512, 699}) {
    for (int head = 0; head < kHeads; ++head) {
      std::vector<double> weights;
      double sum = 0;
      for (int key = 0; key <= token; ++key) {
        double score = 0;
        for (int d = 0; d < kHeadDim; ++d) {
          score += double{paged.Query(token, head)[d]} * paged.Key(key, head / 2)[d];
        }
        weights.push_back(std::exp(score / 4));
        sum += weights.back();
      }
      for (int d = 0; d < kHeadDim; ++d) {
        double expected = 0;
        for (int key = 0; key <= token; ++key) {
          expected += weights[static_cast<size_t>(key)] / sum * paged.Value(key, head / 2)[d];
        }
        EXPECT_NEAR(out[static_cast<size_t>((token * kHeads + head) * kHeadDim + d)], expected,
                    2e-5);
      }
    }
  }
  for (const CpuIsa isa : InstructionSets()) {
    const std::vector<float> other = paged.Attend(0, isa, 3);
    EXPECT_EQ(std::memcmp(other.data(), out.data(), out.size() * sizeof(float)), 0)
        << CpuIsaName(isa);
  }
}

}  // namespace
}  // namespace baton
