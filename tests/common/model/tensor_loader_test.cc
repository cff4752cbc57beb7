#include "common/model/tensor_loader.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/backend/cpu/product/cpu_weight.h"
#include "common/backend/make_backend.h"
#include "common/base/float_types.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Purpose = TensorLoader::Purpose;

constexpr uint32_t kTypeF32 = 0;
constexpr uint32_t kTypeF16 = 1;
constexpr uint32_t kTypeQ8_0 = 8;

// A file of floats that count up from 0 in each tensor, a vector of halves and one of no floats.
GgufFile LoaderFile() {
  GgufBuilder builder;
  const auto add = [&builder](const std::string& name, std::vector<uint64_t> dims, int count) {
    GgufBytes bytes;
    for (int i = 0; i < count; ++i) bytes.Number(static_cast<float>(i));
    builder.TensorWithData(name, std::move(dims), kTypeF32, bytes.str());
  };
  add("matrix", {2, 3}, 6);
  add("stack", {2, 1, 3}, 6);
  add("vector", {3}, 3);
  builder.TensorWithData("halves", {1}, kTypeF16, GgufBytes().Number(F32ToF16(0.5f)).str());
  builder.TensorWithData("codes", {32}, kTypeQ8_0, std::string(34, '\0'));
  return *GgufFile::Parse(builder.Build(), "m.gguf");
}

std::vector<float> FloatsOfRow(const Weight& weight, int row) {
  std::vector<float> values(static_cast<size_t>(weight.columns()));
  static_cast<const CpuWeight&>(weight).Dequantise(row, values.data());
  return values;
}

class TensorLoaderTest : public ::testing::Test {
 protected:
  TensorLoader Loader(Purpose purpose = Purpose::kLoad) { return {file_, *backend_, purpose}; }

  const GgufFile file_ = LoaderFile();
  const std::unique_ptr<Backend> backend_ = *MakeBackend({.device = "cpu", .threads = 1});
};

TEST_F(TensorLoaderTest, MatricesOfOneTensorAreItsRowsOneBelowTheOther) {
  TensorLoader loader = Loader();
  std::unique_ptr<Weight> above, below;
  ASSERT_TRUE(loader.Matrices("matrix", 2, {{1, &above}, {2, &below}}).ok());
  EXPECT_EQ(above->rows(), 1);
  EXPECT_EQ(below->rows(), 2);
  EXPECT_THAT(FloatsOfRow(*above, 0), ElementsAre(0, 1));
  EXPECT_THAT(FloatsOfRow(*below, 1), ElementsAre(4, 5));
  std::vector<std::unique_ptr<Weight>> stack;
  ASSERT_TRUE(loader.Stack("stack", 3, 1, 2, stack).ok());
  ASSERT_EQ(stack.size(), 3u);
  EXPECT_THAT(FloatsOfRow(*stack[2], 0), ElementsAre(4, 5));
}

TEST_F(TensorLoaderTest, VectorsAreFloatsWhateverTheFileHas) {
  TensorLoader loader = Loader();
  WeightVector halves, missing;
  ASSERT_TRUE(loader.Vector("halves", 1, halves).ok());
  EXPECT_EQ(halves.data()[0], 0.5f);
  ASSERT_TRUE(loader.VectorIfPresent("missing", 1, missing).ok());
  EXPECT_TRUE(missing.empty());
  EXPECT_THAT(*loader.HostVector("vector", 3), ElementsAre(0, 1, 2));
  WeightVector codes;
  EXPECT_EQ(loader.Vector("codes", 32, codes),
            absl::UnimplementedError("m.gguf: tensor 'codes': type Q8_0 is not supported for a "
                                     "vector; supported are F32, F16 and BF16"));
}

TEST_F(TensorLoaderTest, ATensorThatIsMissingOrOfAnotherShapeIsNamed) {
  TensorLoader loader = Loader();
  std::unique_ptr<Weight> weight;
  EXPECT_TRUE(loader.HasRows("matrix", 3));
  EXPECT_FALSE(loader.HasRows("matrix", 2));
  EXPECT_FALSE(loader.HasRows("vector", 3)) << "no matrix";
  EXPECT_EQ(loader.Matrix("missing", 3, 2, weight),
            absl::InvalidArgumentError("m.gguf: tensor 'missing' is missing"));
  EXPECT_EQ(loader.Matrix("matrix", 2, 3, weight),
            absl::InvalidArgumentError(
                "m.gguf: tensor 'matrix' has dimensions 2 x 3; the metadata requires 3 x 2"));
}

TEST_F(TensorLoaderTest, MeasuringCountsTheBytesOfLoadingAndLoadsNothing) {
  TensorLoader measuring = Loader(Purpose::kMeasure);
  TensorLoader loading = Loader();
  for (TensorLoader* loader : {&measuring, &loading}) {
    std::unique_ptr<Weight> weight;
    WeightVector vector;
    ASSERT_TRUE(loader->Matrix("matrix", 3, 2, weight).ok());
    ASSERT_TRUE(loader->Vector("vector", 3, vector).ok());
    EXPECT_EQ(weight == nullptr, loader == &measuring);
    EXPECT_EQ(vector.empty(), loader == &measuring);
  }
  EXPECT_GE(measuring.measured_bytes(), 9 * sizeof(float));
  EXPECT_EQ(measuring.measured_bytes(), loading.measured_bytes());
  EXPECT_THAT(*measuring.HostVector("vector", 3), ElementsAre(0, 1, 2))
      << "it is read all the same";
}

TEST_F(TensorLoaderTest, ATensorThatNobodyTookIsNamed) {
  TensorLoader loader = Loader(Purpose::kMeasure);
  std::unique_ptr<Weight> weight;
  std::vector<std::unique_ptr<Weight>> stack;
  WeightVector vector;
  ASSERT_TRUE(loader.Matrix("matrix", 3, 2, weight).ok());
  ASSERT_TRUE(loader.Stack("stack", 3, 1, 2, stack).ok());
  ASSERT_TRUE(loader.Vector("halves", 1, vector).ok());
  ASSERT_TRUE(loader.Matrix("codes", 1, 32, weight).code() ==
              absl::StatusCode::kInvalidArgument);  // it has one dimension, and was not taken
  EXPECT_EQ(loader.CheckNoneLeft("a"),
            absl::UnimplementedError("m.gguf: tensor 'vector' is not part of the supported models "
                                     "of architecture 'a'"));
  ASSERT_TRUE(loader.Vector("vector", 3, vector).ok());
  EXPECT_THAT(std::string(loader.CheckNoneLeft("a").message()), testing::HasSubstr("'codes'"));
}

}  // namespace
}  // namespace baton
