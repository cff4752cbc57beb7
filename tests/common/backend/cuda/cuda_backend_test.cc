// Each operation of the CUDA backend against the CPU's, through the interface that the model uses.
#include "common/backend/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/common/backend/cuda/cuda_backend_fixture.h"
#include "tests/common/backend/cuda/product/gate_in_double.h"

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

GateFunction FunctionOf(InputKind kind) {
  return kind == InputKind::kSilu   ? GateFunction::kSilu
         : kind == InputKind::kGelu ? GateFunction::kGeluTanh
                                    : GateFunction::kClampedSilu;
}

std::vector<float> GatedOnHost(GateFunction function, const std::vector<float>& gate,
                               const std::vector<float>& up) {
  std::vector<float> values;
  for (size_t i = 0; i < gate.size(); ++i) {
    values.push_back(static_cast<float>(GatedInDouble(function, gate[i], up[i])));
  }
  return values;
}

// What becomes of a product: the CPU's own is taken without scale or addition.
void ScaleAndAdd(const ProductCase& test, const std::vector<float>& before,
                 std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = test.scale * values[i] + (test.accumulate ? before[i] : 0);
  }
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
        outputs.push_back({side.Load(matrices[i]->tensor), side.Put(before[i], test.rows)});
        if (&side == &cpu_) continue;
        outputs.back().accumulate = test.accumulate;
        outputs.back().scale = test.scale;
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
          if (&side == &cuda_) {
            backend.GatedProduct(FunctionOf(test.kind), tensor, side.Put(up, test.rows), outputs);
          } else {
            backend.Product(side.Put(GatedOnHost(FunctionOf(test.kind), in, up), test.rows),
                            outputs);
          }
      }
      std::vector<float> all;
      for (size_t i = 0; i < outputs.size(); ++i) {
        std::vector<float> values = side.Get(outputs[i].out);
        if (&side == &cpu_) ScaleAndAdd(test, before[i], values);
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
      Run({kind, 5, 52, {type}, {37, 16, 1}, /*accumulate=*/true, /*scale=*/-0.7f});
      Run({kind, 15, 72, {type}, {24}});
    }
  }
}

TEST_F(CudaProduct, OfManyRowsIsTheCpusWithinTheRoundingOfItsInput) {
  for (const InputKind kind : kInputKinds) {
    for (const GgmlType type : kTypes) {
      Run({kind, 16, 96, {type}, {40}});
      Run({kind, 33, 52, {type}, {37, 16, 1}, /*accumulate=*/true, /*scale=*/-0.7f});
    }
  }
}

TEST_F(CudaProduct, OfGatesThatAreMadeFirstIsTheCpus) {
  ASSERT_FALSE(MakeGatesFirst(1, 8192));
  for (const auto& [rows, columns] : {std::pair{1, 8196}, {9, 1824}}) {
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

TEST_F(CudaBackendTest, AddsABiasToEachRow) {
  const std::vector<float> bias = RandomFloats(random_, 53);
  const std::vector<float> values = RandomFloats(random_, 9 * 53);
  ExpectSame(0, [&](BackendSide& side) {
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
