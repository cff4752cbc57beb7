// Each operation of the CUDA backend against the CPU's, through the interface that the model uses.
#include "common/backend/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/backend/make_backend.h"
#include "common/base/check.h"
#include "common/base/float_types.h"
#include "tests/support/stored_head.h"

namespace baton {
namespace {

using Output = Backend::ProductOutput;

const GgmlType kTypes[] = {GgmlType::kF32, GgmlType::kF16, GgmlType::kBf16};

std::unique_ptr<Backend> MakeOrDie(const char* device, bool deterministic) {
  auto backend = MakeBackend({.device = device, .threads = 1, .deterministic = deterministic});
  BATON_CHECK(backend.ok(), "a backend");
  return *std::move(backend);
}

std::vector<float> RandomFloats(std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// The worst and the mean distance of `values` from `expected`, relative to the size of `expected`.
void ExpectNear(const std::vector<float>& values, const std::vector<float>& expected,
                double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  double squares = 0;
  for (const float value : expected) squares += double{value} * value;
  const double size = std::sqrt(squares / static_cast<double>(expected.size()));
  double error = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = double{values[i]} - expected[i];
    ASSERT_LE(std::fabs(difference), 8 * tolerance * size) << "element " << i;
    error += difference * difference;
  }
  EXPECT_LE(std::sqrt(error / static_cast<double>(values.size())), tolerance * size);
}

// One backend, and the buffers that a test puts into its memory.
class Side {
 public:
  explicit Side(const char* device, bool deterministic = false)
      : backend_(MakeOrDie(device, deterministic)) {}

  Backend& backend() { return *backend_; }

  uint8_t* Put(const void* host, size_t bytes) {
    auto buffer = backend_->Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    backend_->Upload(host, bytes, buffer->data());
    memory_.push_back(*std::move(buffer));
    return memory_.back().data();
  }
  Tensor Put(const std::vector<float>& values, int rows) {
    uint8_t* data = Put(values.data(), values.size() * sizeof(float));
    return {reinterpret_cast<float*>(data), rows, static_cast<int>(values.size()) / rows};
  }
  std::vector<float> Get(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.rows) *
                              static_cast<size_t>(tensor.columns));
    backend_->Download(tensor.data, values.size() * sizeof(float), values.data());
    return values;
  }
  const Weight* Load(const GgufTensor& tensor) {
    auto weight = backend_->LoadWeight(tensor);
    EXPECT_TRUE(weight.ok()) << weight.status();
    weights_.push_back(*std::move(weight));
    return weights_.back().get();
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<BackendBuffer> memory_;
  std::vector<std::unique_ptr<Weight>> weights_;
};

// A random matrix [rows, columns], as in a file.
struct FileMatrix {
  FileMatrix(std::mt19937& random, GgmlType type, int rows, int columns) {
    for (const float value :
         RandomFloats(random, static_cast<size_t>(rows) * static_cast<size_t>(columns))) {
      const uint32_t bits = type == GgmlType::kF32   ? std::bit_cast<uint32_t>(value)
                            : type == GgmlType::kF16 ? F32ToF16(value)
                                                     : F32ToBf16(value);
      const size_t size = type == GgmlType::kF32 ? 4 : 2;
      const auto* first = reinterpret_cast<const uint8_t*>(&bits);
      bytes.insert(bytes.end(), first, first + size);
    }
    tensor = {"random.weight",
              type,
              {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
              bytes};
  }
  FileMatrix(const FileMatrix&) = delete;

  std::vector<uint8_t> bytes;
  GgufTensor tensor;
};

class CudaBackendTest : public testing::Test {
 protected:
  // Runs `operation(side)` on both backends, and compares the results.
  template <class Operation>
  void ExpectSame(double tolerance, const Operation& operation) {
    const std::vector<float> expected = operation(cpu_);
    const std::vector<float> values = operation(cuda_);
    if (tolerance == 0) {
      ASSERT_EQ(values.size(), expected.size());
      ASSERT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0);
    } else {
      ASSERT_NO_FATAL_FAILURE(ExpectNear(values, expected, tolerance));
    }
  }

  std::mt19937 random_{7};
  Side cpu_{"cpu"};
  Side cuda_{"cuda"};
};

TEST_F(CudaBackendTest, SaysWhatItIs) {
  EXPECT_STREQ(cuda_.backend().Name(), "cuda");
  EXPECT_THAT(cuda_.backend().Description(), testing::HasSubstr("cuda:0"));
  EXPECT_FALSE(cuda_.backend().host_memory());
}

TEST_F(CudaBackendTest, GivesZeroedMemoryAndSaysHowMuchIsLeft) {
  Backend& backend = cuda_.backend();
  const uint64_t free = backend.FreeMemoryBytes();
  constexpr size_t kBytes = size_t{64} << 20;
  auto buffer = backend.Allocate(kBytes);
  ASSERT_TRUE(buffer.ok());
  EXPECT_LE(backend.FreeMemoryBytes(), free - kBytes);
  std::vector<uint8_t> bytes(kBytes, 1);
  backend.Download(buffer->data(), kBytes, bytes.data());
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), static_cast<int64_t>(kBytes));
  *buffer = BackendBuffer();
  EXPECT_GE(backend.FreeMemoryBytes(), free - kBytes / 2);
}

TEST_F(CudaBackendTest, SaysWhatIsFreeWhereMemoryLacks) {
  const auto buffer = cuda_.backend().Allocate(size_t{1} << 50);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(buffer.status().message()),
              testing::AllOf(testing::HasSubstr("1125899906842624 bytes"),
                             testing::HasSubstr("MiB of device memory are free")));
  // The next operation does not find the error.
  EXPECT_TRUE(cuda_.backend().Allocate(16).ok());
}

TEST_F(CudaBackendTest, RefusesOtherTypesOfWeightsByName) {
  const std::vector<uint8_t> bytes(22);
  const auto weight =
      cuda_.backend().LoadWeight({"blk.0.attn_q.weight", GgmlType::kQ5_0, {32, 1}, bytes});
  EXPECT_EQ(weight.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(weight.status().message()),
              testing::AllOf(testing::HasSubstr("blk.0.attn_q.weight"), testing::HasSubstr("Q5_0"),
                             testing::HasSubstr("supported are F32, F16")));
}

TEST_F(CudaBackendTest, EmbedsTheBitsOfTheTableForTokensThatTheHostOrTheDeviceKnows) {
  for (const GgmlType type : kTypes) {
    const FileMatrix table(random_, type, 37, 44);
    ExpectSame(0, [&](Side& side) {
      const Tensor out = side.Put(std::vector<float>(6 * 44), 6);
      const std::vector<int32_t> sampled_ids = {36, 5, 36};
      const int32_t block = 0;
      const Batch batch{
          .tokens = {InputToken::Id(36), InputToken::Id(0), InputToken::Id(5),
                     InputToken::PendingRow(1), InputToken::Id(17), InputToken::PendingRow(0)},
          .sampled_ids = reinterpret_cast<int32_t*>(
              side.Put(sampled_ids.data(), sampled_ids.size() * sizeof(int32_t))),
          .sequences = {{0, 6, 0, &block, 1}},
          .logits_rows = {}};
      side.backend().BeginPass({.batch = &batch});
      side.backend().Embed(*side.Load(table.tensor), out);
      return side.Get(out);
    });
  }
}

enum class InputKind { kPlain, kNorm, kSwiGlu };

struct ProductCase {
  InputKind kind;
  int rows;
  int columns;
  std::vector<GgmlType> weights;
  std::vector<int> outputs;  // outputs of each weight
  bool accumulate = false;
};

// The tolerance for inputs that are rounded to the weights' type. The sums are float32, whose
// errors grow with their length.
double ToleranceOf(const ProductCase& test) {
  double tolerance = 2e-6 * std::max(1.0, test.columns / 1000.0);
  if (test.rows <= kMaxVectorRows) return tolerance;
  for (const GgmlType type : test.weights) {
    if (type == GgmlType::kF16) tolerance = std::max(tolerance, 4e-4);
    if (type == GgmlType::kBf16) tolerance = std::max(tolerance, 3e-3);
  }
  return tolerance;
}

class CudaProduct : public CudaBackendTest {
 protected:
  void Run(const ProductCase& test) {
    SCOPED_TRACE(absl::StrCat("kind ", static_cast<int>(test.kind), ", ", test.rows, " rows of ",
                              test.columns, ", ", test.outputs.size(), " outputs from ",
                              test.outputs[0]));
    const auto size = static_cast<size_t>(test.rows) * static_cast<size_t>(test.columns);
    const std::vector<float> in = RandomFloats(random_, size);
    const std::vector<float> up = RandomFloats(random_, size);
    const std::vector<float> gain = RandomFloats(random_, static_cast<size_t>(test.columns));
    std::vector<std::unique_ptr<FileMatrix>> matrices;
    std::vector<std::vector<float>> before;
    for (size_t i = 0; i < test.outputs.size(); ++i) {
      matrices.push_back(std::make_unique<FileMatrix>(
          random_, test.weights[i % test.weights.size()], test.outputs[i], test.columns));
      before.push_back(RandomFloats(
          random_, static_cast<size_t>(test.rows) * static_cast<size_t>(test.outputs[i])));
    }
    ExpectSame(ToleranceOf(test), [&](Side& side) {
      Backend& backend = side.backend();
      std::vector<Output> outputs;
      for (size_t i = 0; i < matrices.size(); ++i) {
        outputs.push_back(
            {side.Load(matrices[i]->tensor), side.Put(before[i], test.rows), test.accumulate});
      }
      const Tensor tensor = side.Put(in, test.rows);
      switch (test.kind) {
        case InputKind::kPlain:
          backend.Product(tensor, outputs);
          break;
        case InputKind::kNorm:
          backend.NormProduct(tensor, side.Put(gain, 1).data, 1e-5f,
                              Backend::InputPrecision::kUsual, outputs);
          break;
        case InputKind::kSwiGlu:
          backend.SwiGluProduct(tensor, side.Put(up, test.rows), outputs);
          break;
      }
      std::vector<float> all;
      for (const Output& output : outputs) {
        const std::vector<float> values = side.Get(output.out);
        all.insert(all.end(), values.begin(), values.end());
      }
      return all;
    });
  }
};

TEST_F(CudaProduct, OfFewRowsIsTheCpus) {
  for (const InputKind kind : {InputKind::kPlain, InputKind::kNorm, InputKind::kSwiGlu}) {
    for (const GgmlType type : kTypes) {
      Run({kind, 1, 96, {type}, {40}});
      Run({kind, 5, 52, {type}, {37, 16, 1}, /*accumulate=*/true});
      Run({kind, 15, 72, {type}, {24}});
    }
  }
}

TEST_F(CudaProduct, OfManyRowsIsTheCpusWithinTheRoundingOfItsInput) {
  for (const InputKind kind : {InputKind::kPlain, InputKind::kNorm, InputKind::kSwiGlu}) {
    for (const GgmlType type : kTypes) {
      Run({kind, 16, 96, {type}, {40}});
      Run({kind, 33, 52, {type}, {37, 16, 1}, /*accumulate=*/true});
    }
  }
}

TEST_F(CudaProduct, OfGatesThatAreMadeFirstIsTheCpus) {
  ASSERT_FALSE(MakeGatesFirst(1, 8192));
  for (const auto& [rows, columns] : {std::pair{1, 8196}, {9, 1824}}) {
    ASSERT_TRUE(MakeGatesFirst(rows, columns));
    Run({InputKind::kSwiGlu, rows, columns, {GgmlType::kBf16}, {9}, /*accumulate=*/true});
  }
}

TEST_F(CudaProduct, TakesAnyNumberOfWeightsOfAnyTypes) {
  for (const int rows : {3, 20}) {
    Run({InputKind::kNorm,
         rows,
         48,
         {GgmlType::kF16, GgmlType::kF32},
         {8, 24, 8, 16, 40, 8, 8, 8}});
    Run({InputKind::kPlain, rows, 48, {kTypes, kTypes + 3}, {8, 24, 8, 16}, /*accumulate=*/true});
  }
}

TEST_F(CudaBackendTest, AddsABiasToEachRow) {
  const std::vector<float> bias = RandomFloats(random_, 53);
  const std::vector<float> values = RandomFloats(random_, 9 * 53);
  ExpectSame(0, [&](Side& side) {
    const Tensor out = side.Put(values, 9);
    side.backend().AddBias(side.Put(bias, 1).data, out);
    return side.Get(out);
  });
}

TEST_F(CudaBackendTest, CopiesRowsAlsoIntoThemselves) {
  const std::vector<float> values = RandomFloats(random_, 40 * 33);
  std::vector<int> rows;
  for (int row = 0; row < 40; row += 1 + static_cast<int>(random_() % 3)) rows.push_back(row);
  const int count = static_cast<int>(rows.size());
  ExpectSame(0, [&](Side& side) {
    const Tensor in = side.Put(values, 40);
    const Tensor out = side.Put(std::vector<float>(rows.size() * 33), count);
    side.backend().CopyRows(in, rows, out);
    side.backend().CopyRows(in, rows, in.First(count));
    std::vector<float> both = side.Get(out);
    const std::vector<float> itself = side.Get(in.First(count));
    both.insert(both.end(), itself.begin(), itself.end());
    return both;
  });
}

// Sequences over a paged cache of random K and V.
struct PagedCase {
  struct Sequence {
    int before;  // tokens in the cache
    int rows;    // rows in the pass
  };
  std::vector<Sequence> sequences;
  int heads;
  int kv_heads;
  int head_dim;
  int block_size = 16;
  KvType dtype = KvType::kF16;
  RopePairs pairs = RopePairs::kInterleaved;
  int rope_dim = 0;
};

class CudaPaged : public CudaBackendTest {
 protected:
  static constexpr int kLayers = 2;

  // The blocks are in no order. The cache has two layers, of which the second is used.
  void Make(const PagedCase& test) {
    test_ = test;
    tables_.clear();
    batch_.sequences.clear();
    rows_ = 0;
    int blocks = 1;
    for (const auto& sequence : test.sequences) {
      blocks += (sequence.before + sequence.rows + test.block_size - 1) / test.block_size;
    }
    std::vector<int32_t> order(static_cast<size_t>(blocks));
    for (int i = 0; i < blocks; ++i) order[static_cast<size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), random_);
    for (const auto& sequence : test.sequences) {
      const int count = (sequence.before + sequence.rows + test.block_size - 1) / test.block_size;
      tables_.emplace_back(order.end() - count, order.end());
      order.resize(order.size() - static_cast<size_t>(count));
    }
    for (size_t i = 0; i < tables_.size(); ++i) {
      const auto& sequence = test.sequences[i];
      batch_.sequences.push_back({rows_, sequence.rows, sequence.before, tables_[i].data(),
                                  static_cast<int>(tables_[i].size())});
      rows_ += sequence.rows;
    }
    view_ = {.block_size = test.block_size,
             .kv_heads = test.kv_heads,
             .head_dim = test.head_dim,
             .dtype = test.dtype};
    const size_t part = view_.part().bytes();
    view_.block_bytes = 2 * kLayers * part;
    view_.keys_offset = 2 * part;
    view_.values_offset = 3 * part;
    cache_bytes_.clear();
    if (IsQuantised(test.dtype)) {
      FillCodes(blocks);
    } else {
      const size_t elements =
          view_.block_bytes * static_cast<size_t>(blocks) / KvElementBytes(test.dtype);
      for (const float value : RandomFloats(random_, elements)) AppendElement(value);
    }
    angles_cos_ = RandomFloats(random_, static_cast<size_t>(rows_ * (test.rope_dim / 2)));
    angles_sin_ = RandomFloats(random_, static_cast<size_t>(rows_ * (test.rope_dim / 2)));
  }

  void FillCodes(int blocks) {
    cache_bytes_.assign(view_.block_bytes * static_cast<size_t>(blocks), 0x5a);
    KvLayerView view = view_;
    view.blocks = cache_bytes_.data();
    const auto row = [&] {
      return RandomFloats(random_, static_cast<size_t>(test_.kv_heads * test_.head_dim));
    };
    for (int block = 0; block < blocks; ++block) {
      for (int token = 0; token < test_.block_size; ++token) {
        StoreHeads(view.part(), row().data(), view.KeyRow(block, token),
                   view.KeyScales(block, token));
        StoreHeads(view.part(), row().data(), view.ValueRow(block, token),
                   view.ValueScales(block, token));
      }
    }
  }

  void AppendElement(float value) {
    const uint32_t bits = test_.dtype == KvType::kF32   ? std::bit_cast<uint32_t>(value)
                          : test_.dtype == KvType::kF16 ? F32ToF16(value)
                                                        : F32ToBf16(value);
    const auto* first = reinterpret_cast<const uint8_t*>(&bits);
    cache_bytes_.insert(cache_bytes_.end(), first, first + KvElementBytes(test_.dtype));
  }

  // The view of a copy of the cache in the side's memory.
  KvLayerView PutCache(Side& side) {
    KvLayerView view = view_;
    view.blocks = side.Put(cache_bytes_.data(), cache_bytes_.size());
    return view;
  }
  std::vector<float> GetCache(Side& side, const KvLayerView& view) {
    std::vector<uint8_t> bytes(cache_bytes_.size());
    side.backend().Download(view.blocks, bytes.size(), bytes.data());
    std::vector<float> values;
    // Every byte of codes and scales is equal.
    if (IsQuantised(test_.dtype)) return {bytes.begin(), bytes.end()};
    for (size_t at = 0; at < bytes.size(); at += KvElementBytes(test_.dtype)) {
      uint32_t bits = 0;
      std::memcpy(&bits, &bytes[at], KvElementBytes(test_.dtype));
      const auto half = static_cast<uint16_t>(bits);
      values.push_back(test_.dtype == KvType::kF32   ? std::bit_cast<float>(bits)
                       : test_.dtype == KvType::kF16 ? F16ToF32(half)
                                                     : Bf16ToF32(half));
    }
    return values;
  }
  void Begin(Side& side, bool recorded = false) {
    side.backend().BeginPass({.batch = &batch_,
                              .recorded = recorded,
                              .rope = {.pairs = test_.pairs,
                                       .dim = test_.rope_dim,
                                       .cosines = angles_cos_,
                                       .sines = angles_sin_}});
  }
  std::vector<float> RandomRows(int columns) {
    return RandomFloats(random_, static_cast<size_t>(rows_) * static_cast<size_t>(columns));
  }

  PagedCase test_;
  std::vector<std::vector<int32_t>> tables_;
  Batch batch_;
  int rows_ = 0;
  KvLayerView view_;
  std::vector<uint8_t> cache_bytes_;
  std::vector<float> angles_cos_;
  std::vector<float> angles_sin_;
};

TEST_F(CudaPaged, RotatesAndAppendsWhatTheCpuDoes) {
  const std::vector<PagedCase::Sequence> mixed = {{0, 7}, {15, 1}, {30, 5}, {33, 1}};
  for (const KvType dtype : kAllKvTypes) {
    for (const PagedCase& test :
         {PagedCase{mixed, 4, 2, 16, 16, dtype, RopePairs::kInterleaved, 16},
          PagedCase{mixed, 3, 3, 24, 48, dtype, RopePairs::kHalfSplit, 24},
          PagedCase{mixed, 6, 1, 64, 32, dtype, RopePairs::kHalfSplit, 32},
          PagedCase{mixed, 2, 1, 80, 16, dtype, RopePairs::kInterleaved, 20}}) {
      Make(test);
      const std::vector<float> queries = RandomRows(test.heads * test.head_dim);
      const std::vector<float> keys = RandomRows(test.kv_heads * test.head_dim);
      const std::vector<float> values = RandomRows(test.kv_heads * test.head_dim);
      // The last bit of the cache's type may differ, where the rotation was fused in another way.
      const double tolerance = dtype == KvType::kF16 ? 3e-4 : dtype == KvType::kBf16 ? 3e-3 : 1e-7;
      ExpectSame(tolerance, [&](Side& side) {
        const KvLayerView view = PutCache(side);
        const Tensor q = side.Put(queries, rows_);
        Begin(side);
        side.backend().RotateAndAppend(q, side.Put(keys, rows_), side.Put(values, rows_), view);
        std::vector<float> all = GetCache(side, view);
        const std::vector<float> rotated = side.Get(q);
        all.insert(all.end(), rotated.begin(), rotated.end());
        return all;
      });
    }
  }
}

TEST_F(CudaPaged, AttendsToWhatTheCpuDoes) {
  const std::vector<PagedCase::Sequence> mixed = {{0, 19}, {40, 1}, {21, 6}, {300, 1}, {0, 1}};
  for (const KvType dtype : kAllKvTypes) {
    for (const PagedCase& test :
         {PagedCase{mixed, 4, 2, 16, 16, dtype}, PagedCase{mixed, 3, 3, 48, 48, dtype},
          PagedCase{mixed, 8, 1, 64, 32, dtype}}) {
      Make(test);
      const std::vector<float> queries = RandomRows(test.heads * test.head_dim);
      const double tolerance = dtype == KvType::kF32 ? 2e-6 : dtype == KvType::kBf16 ? 6e-3 : 1e-3;
      ExpectSame(tolerance, [&](Side& side) {
        const KvLayerView view = PutCache(side);
        const Tensor out = side.Put(std::vector<float>(queries.size()), rows_);
        Begin(side);
        // Twice, as two layers follow one another: the plan and its counters serve both.
        side.backend().Attention(side.Put(queries, rows_), view, out);
        side.backend().Attention(side.Put(queries, rows_), view, out);
        return side.Get(out);
      });
    }
  }
}

TEST_F(CudaPaged, AttendsAlikeInRecordedPassesWhereItIsDeterministic) {
  Side side("cuda", /*deterministic=*/true);
  for (const PagedCase& test :
       {PagedCase{{{300, 1}, {40, 1}, {0, 1}, {513, 1}}, 4, 1, 64, 32, KvType::kF16},
        PagedCase{{{300, 1}, {513, 1}}, 2, 1, 48, 16, KvType::kF32}}) {
    Make(test);
    const Tensor queries = side.Put(RandomRows(test.heads * test.head_dim), rows_);
    const Tensor out = side.Put(RandomRows(test.heads * test.head_dim), rows_);
    const KvLayerView view = PutCache(side);
    Begin(side);
    side.backend().Attention(queries, view, out);
    const std::vector<float> expected = side.Get(out);
    Begin(side, /*recorded=*/true);
    side.backend().Attention(queries, view, out);
    EXPECT_EQ(side.Get(out), expected);
  }
}

// A backend's buffers grow and are used again: a pass must not see what an earlier one left there.
TEST_F(CudaPaged, PassesOfAllSizesFollowOneAnother) {
  for (const int rows : {3, 90, 1, 17, 2}) {
    Make({{{static_cast<int>(random_() % 40), rows}, {5, 1}}, 2, 1, 16, 16, KvType::kF32});
    const std::vector<float> queries = RandomRows(32);
    const KvLayerView views[] = {PutCache(cpu_), PutCache(cuda_)};
    ExpectSame(2e-6, [&](Side& side) {
      const Tensor out = side.Put(std::vector<float>(queries.size()), rows_);
      Begin(side);
      side.backend().Attention(side.Put(queries, rows_), views[&side == &cuda_], out);
      return side.Get(out);
    });
  }
}

}  // namespace
}  // namespace baton
