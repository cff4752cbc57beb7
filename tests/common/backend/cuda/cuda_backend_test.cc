// Each operation of the CUDA backend against the CPU's, through the interface that the model uses.
#include "common/backend/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/backend/cuda/experts/expert_mixer.h"
#include "common/backend/cuda/product/vector/vector_product.h"
#include "tests/common/backend/cuda/cuda_backend_fixture.h"
#include "tests/common/backend/cuda/product/test_matrix.h"

namespace baton {
namespace {

using Output = Backend::ProductOutput;

const GgmlType kTypes[] = {GgmlType::kF32, GgmlType::kF16, GgmlType::kBf16};

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
    ExpectSame(0, [&](BackendSide& side) {
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

enum class InputKind { kPlain, kNorm, kSilu, kGelu, kClamped };
constexpr InputKind kInputKinds[] = {InputKind::kPlain, InputKind::kNorm, InputKind::kSilu,
                                     InputKind::kGelu, InputKind::kClamped};

struct ProductCase {
  InputKind kind;
  int rows;
  int columns;
  std::vector<GgmlType> weights;
  std::vector<int> outputs;  // outputs of each weight
  bool accumulate = false;
  float scale = 1;
};

// The tolerance for inputs that are rounded. The sums are float32, whose errors grow with their
// length.
double ToleranceOf(const ProductCase& test) {
  double tolerance = 2e-6 * std::max(1.0, test.columns / 1000.0);
  for (const GgmlType type : test.weights) {
    const CudaElement element = type == GgmlType::kF32   ? CudaElement::kF32
                                : type == GgmlType::kF16 ? CudaElement::kF16
                                                         : CudaElement::kBf16;
    const ProductKernel kernel = ProductKernelOf(element, test.rows);
    if (kernel == ProductKernel::kVector || type == GgmlType::kF32) continue;
    const bool two_terms = kernel == ProductKernel::kParts && type == GgmlType::kF16;
    const double rounding = two_terms ? 2e-5 : type == GgmlType::kF16 ? 4e-4 : 3e-3;
    tolerance = std::max(tolerance, rounding);
  }
  return tolerance;
}

GateFunction FunctionOf(InputKind kind) {
  return kind == InputKind::kSilu   ? GateFunction::kSilu
         : kind == InputKind::kGelu ? GateFunction::kGeluTanh
                                    : GateFunction::kClampedSilu;
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
    ExpectSame(ToleranceOf(test), [&](BackendSide& side) {
      Backend& backend = side.backend();
      std::vector<Output> outputs;
      for (size_t i = 0; i < matrices.size(); ++i) {
        outputs.push_back({side.Load(matrices[i]->tensor), side.Put(before[i], test.rows),
                           test.accumulate, test.scale});
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
        default:
          backend.GatedProduct(FunctionOf(test.kind), tensor, side.Put(up, test.rows), outputs);
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
  for (const InputKind kind : kInputKinds) {
    for (const GgmlType type : kTypes) {
      Run({kind, 1, 96, {type}, {40}});
      Run({kind, 4, 52, {type}, {37, 16, 1}, /*accumulate=*/true, /*scale=*/-0.7f});
    }
  }
}

TEST_F(CudaProduct, OfManyRowsIsTheCpusWithinTheRoundingOfItsInput) {
  for (const InputKind kind : kInputKinds) {
    for (const GgmlType type : kTypes) {
      Run({kind, 5, 52, {type}, {37, 16, 1}, /*accumulate=*/true, /*scale=*/-0.7f});
      Run({kind, 16, 96, {type}, {40}});
      Run({kind, 33, 52, {type}, {37, 16, 1}, /*accumulate=*/true, /*scale=*/-0.7f});
    }
  }
}

TEST_F(CudaProduct, OfGatesThatAreMadeFirstIsTheCpus) {
  ASSERT_FALSE(MakeGatesFirst(1, 8192));
  for (const auto& [rows, columns] : {std::pair{1, 8196}, {4, 4100}}) {
    ASSERT_TRUE(MakeGatesFirst(rows, columns));
    Run({InputKind::kGelu, rows, columns, {GgmlType::kBf16}, {9}, /*accumulate=*/true});
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

// The CPU rounds the input to bytes, this backend to BF16 or not at all.
TEST_F(CudaProduct, OfQuantisedWeightsIsTheCpusWithinTheRoundingOfItsInput) {
  for (const TestElement& element : kQuantisedElements) {
    for (const int rows : {1, 2, 64, 65}) {
      SCOPED_TRACE(absl::StrCat(GgmlTypeName(element.type), ", ", rows, " rows"));
      constexpr int kColumns = 256;
      constexpr int kOutputs = 24;
      const TestMatrix weight(element, kOutputs, kColumns, random_);
      const std::vector<float> in = RandomFloats(random_, static_cast<size_t>(rows) * kColumns);
      ExpectSame(1.5e-2, [&](BackendSide& side) {
        const Tensor out = side.Put(std::vector<float>(static_cast<size_t>(rows) * kOutputs), rows);
        const std::vector<Output> outputs = {{side.Load(weight.FileTensor()), out}};
        side.backend().Product(side.Put(in, rows), outputs);
        return side.Get(out);
      });
    }
  }
}

TEST_F(CudaBackendTest, NormalisesScalesAndCapsRowsAsTheCpuDoes) {
  constexpr int kRows = 5;
  constexpr int kColumns = 96;
  constexpr int kGroup = 24;
  const std::vector<float> values = RandomFloats(random_, kRows * kColumns);
  const std::vector<float> others = RandomFloats(random_, kRows * kColumns);
  const std::vector<float> gain = RandomFloats(random_, kColumns);
  ExpectSame(1e-6, [&](BackendSide& side) {
    Backend& backend = side.backend();
    const Tensor out = side.Put(values, kRows);
    const float* const gains = side.Put(gain, 1).data;
    backend.NormGroups(gains, kGroup, 1e-5f, out);
    backend.AddNorm(side.Put(others, kRows), gains, 1e-5f, -0.6f, out);
    backend.Scale(12, out);
    backend.SoftCap(20, out);
    return side.Get(out);
  });
}

TEST_F(CudaBackendTest, AddsABiasToEachRow) {
  const std::vector<float> bias = RandomFloats(random_, 53);
  const std::vector<float> values = RandomFloats(random_, 9 * 53);
  ExpectSame(0, [&](BackendSide& side) {
    const Tensor out = side.Put(values, 9);
    side.backend().AddBias(side.Put(bias, 1).data, out);
    return side.Get(out);
  });
}

// One row for each of `rows` sequences.
struct OneRowEach {
  explicit OneRowEach(int rows) {
    for (int row = 0; row < rows; ++row) batch.sequences.push_back({row, 1, 0, &block, 1});
  }
  int32_t block = 0;
  Batch batch;
};

// Experts, and the rows that go through them, in a backend's memory.
struct ExpertLayer {
  static constexpr int kExperts = 6;
  static constexpr int kWidth = 48;
  static constexpr int kExpertWidth = 40;

  ExpertLayer(std::mt19937& random, GgmlType type, BackendSide& side_) : side(side_) {
    const auto load = [&](int rows, int columns) {
      const FileMatrix file(random, type, rows, columns);
      auto weight = side.backend().LoadWeight(file.tensor);
      EXPECT_TRUE(weight.ok()) << weight.status();
      return *std::move(weight);
    };
    for (int e = 0; e < kExperts; ++e) {
      gate.push_back(load(kExpertWidth, kWidth));
      up.push_back(load(kExpertWidth, kWidth));
      down.push_back(load(kWidth, kExpertWidth));
    }
    gain = side.Put(RandomFloats(random, kWidth), 1).data;
  }

  void Add(Tensor in, Tensor router, Tensor out) const {
    side.backend().AddExperts(in, gain, 1e-5f, router,
                              {.gate = gate, .up = up, .down = down, .used = 2}, 0.5f, out);
  }

  BackendSide& side;
  std::vector<std::unique_ptr<Weight>> gate, up, down;
  const float* gain;
};

TEST_F(CudaBackendTest, AddsExpertsAsTheCpuDoes) {
  for (const GgmlType type : kTypes) {
    for (const size_t rows : {1, 5, 20}) {
      const std::vector<float> in = RandomFloats(random_, rows * ExpertLayer::kWidth);
      const std::vector<float> router = RandomFloats(random_, rows * ExpertLayer::kExperts);
      const unsigned seed = random_();
      // The input of many rows is rounded to BF16 where the weights are.
      const bool rounded = type == GgmlType::kBf16 && rows > kFineExpertRows;
      ExpectSame(rounded ? 6e-3 : 5e-5, [&](BackendSide& side) {
        std::mt19937 same(seed);
        const ExpertLayer layer(same, type, side);
        const int count = static_cast<int>(rows);
        const Tensor out = side.Put(in, count);
        layer.Add(out, side.Put(router, count), out);
        return side.Get(out);
      });
    }
  }
}

TEST_F(CudaBackendTest, GivesExpertsOfARowTheSameBitsInEveryPassWhereItIsDeterministic) {
  BackendSide side("cuda", /*deterministic=*/true);
  const ExpertLayer layer(random_, GgmlType::kF16, side);
  constexpr int kRows = 50;
  const std::vector<float> in = RandomFloats(random_, kRows * ExpertLayer::kWidth);
  const std::vector<float> router = RandomFloats(random_, kRows * ExpertLayer::kExperts);
  const auto run = [&](size_t first, size_t rows) {
    const auto part = [&](const std::vector<float>& values, size_t columns) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(first * columns);
      return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(rows * columns));
    };
    const int count = static_cast<int>(rows);
    const Tensor out = side.Put(std::vector<float>(rows * ExpertLayer::kWidth), count);
    layer.Add(side.Put(part(in, ExpertLayer::kWidth), count),
              side.Put(part(router, ExpertLayer::kExperts), count), out);
    return side.Get(out);
  };
  const std::vector<float> all = run(0, kRows);
  for (const size_t row : {0, 20, kRows - 1}) {
    const std::vector<float> alone = run(row, 1);
    EXPECT_EQ(std::memcmp(alone.data(), &all[row * ExpertLayer::kWidth],
                          ExpertLayer::kWidth * sizeof(float)),
              0);
  }
}

// The host knows nothing of the choices, so a replayed pass makes its own.
TEST_F(CudaBackendTest, ChoosesExpertsAnewInEachReplayOfARecordedPass) {
  const ExpertLayer layer(random_, GgmlType::kF32, cuda_);
  constexpr int kRows = 4;
  const OneRowEach rows(kRows);
  const auto floats = [&](size_t columns) { return RandomFloats(random_, kRows * columns); };
  const Tensor in = cuda_.Put(floats(ExpertLayer::kWidth), kRows);
  const Tensor router = cuda_.Put(floats(ExpertLayer::kExperts), kRows);
  const Tensor out = cuda_.Put(floats(ExpertLayer::kWidth), kRows);
  const auto recordings = cuda_.backend().MakeRecordings();
  const auto upload = [&](const std::vector<float>& values, Tensor to) {
    cuda_.backend().Upload(values.data(), values.size() * sizeof(float), to.data);
  };
  int runs = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const std::vector<float> values = floats(ExpertLayer::kWidth);
    const std::vector<float> logits = floats(ExpertLayer::kExperts);
    const std::vector<float> before = floats(ExpertLayer::kWidth);
    const Tensor expected = cuda_.Put(before, kRows);
    layer.Add(cuda_.Put(values, kRows), cuda_.Put(logits, kRows), expected);
    upload(values, in);
    upload(logits, router);
    upload(before, out);
    cuda_.backend().BeginPass({.batch = &rows.batch, .recorded = true});
    recordings->Run([&] {
      ++runs;
      layer.Add(in, router, out);
    });
    EXPECT_EQ(cuda_.Get(out), cuda_.Get(expected)) << "pass " << pass;
  }
  EXPECT_EQ(runs, 2) << "one as it is, and one to capture it";
}

TEST_F(CudaBackendTest, CopiesRowsAlsoIntoThemselves) {
  const std::vector<float> values = RandomFloats(random_, 40 * 33);
  std::vector<int> rows;
  for (int row = 0; row < 40; row += 1 + static_cast<int>(random_() % 3)) rows.push_back(row);
  const int count = static_cast<int>(rows.size());
  ExpectSame(0, [&](BackendSide& side) {
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

}  // namespace
}  // namespace baton
