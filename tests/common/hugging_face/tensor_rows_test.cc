#include "common/hugging_face/tensor_rows.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/float_types.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

absl::Span<const uint8_t> BytesOfFloats(const std::vector<float>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)};
}

RowSource FloatRows(const std::vector<float>& values, uint64_t columns) {
  return {.data = BytesOfFloats(values),
          .type = SafeType::kF32,
          .columns = columns,
          .scales = {},
          .scale_type = SafeType::kF32};
}

std::vector<float> MadeFloats(const ModelTensor& tensor, size_t count) {
  std::vector<float> values(count);
  tensor.maker.make(
      absl::MakeSpan(reinterpret_cast<uint8_t*>(values.data()), count * sizeof(float)));
  return values;
}

TEST(TensorRows, BytesThatAreWantedAsTheyLieStayInTheFile) {
  const std::vector<float> file = {0, 1, 2, 3, 4, 5};
  TensorPlan plan;
  plan.runs.push_back({.source = FloatRows(file, 2), .first = 1, .count = 2});
  const ModelTensor tensor = PlannedTensor("t", {2, 2}, std::move(plan));
  EXPECT_EQ(tensor.type, GgmlType::kF32);
  EXPECT_THAT(tensor.dims, ElementsAre(2, 2));
  EXPECT_EQ(tensor.data.data(), reinterpret_cast<const uint8_t*>(&file[2]));
  EXPECT_EQ(tensor.data.size(), 4 * sizeof(float));
  EXPECT_EQ(tensor.maker.make, nullptr);
}

TEST(TensorRows, RunsFollowEachOtherWithTheirSteps) {
  const std::vector<float> first = {0, 1, 2, 3, 4};
  const std::vector<float> second = {10, 11};
  TensorPlan plan;
  plan.runs.push_back({.source = FloatRows(first, 1), .first = 0, .count = 3, .step = 2});
  plan.runs.push_back({.source = FloatRows(second, 1), .first = 1, .count = 1});
  const ModelTensor tensor = PlannedTensor("t", {1, 4}, std::move(plan));
  EXPECT_TRUE(tensor.data.empty());
  EXPECT_THAT(MadeFloats(tensor, 4), ElementsAre(0, 2, 4, 11));
  ASSERT_EQ(tensor.maker.sources.size(), 2u);
  EXPECT_EQ(tensor.maker.sources[0].size(), 5 * sizeof(float)) << "to the last row that is read";
  EXPECT_EQ(tensor.maker.sources[1].data(), reinterpret_cast<const uint8_t*>(&second[1]));
}

TEST(TensorRows, TheHalvesOfEachHeadBecomeNeighbours) {
  const std::vector<float> rows = {0, 1, 2, 3, 10, 11, 12, 13};
  TensorPlan plan;
  plan.runs.push_back({.source = FloatRows(rows, 1), .first = 0, .count = 8});
  plan.pair_head_rows = 4;
  const ModelTensor tensor = PlannedTensor("t", {1, 8}, std::move(plan));
  EXPECT_THAT(MadeFloats(tensor, 8), ElementsAre(0, 2, 1, 3, 10, 12, 11, 13));
}

TEST(TensorRows, OneMoreThanAHalfIsAFloat) {
  const std::vector<uint16_t> halves = {F32ToBf16(0.5f), F32ToBf16(-2)};
  TensorPlan plan;
  RowSource source = {.data = {reinterpret_cast<const uint8_t*>(halves.data()), 4},
                      .type = SafeType::kBf16,
                      .columns = 2,
                      .scales = {},
                      .scale_type = SafeType::kF32};
  plan.runs.push_back({.source = source, .first = 0, .count = 1});
  plan.plus_one = true;
  const ModelTensor tensor = PlannedTensor("t", {2}, std::move(plan));
  EXPECT_EQ(tensor.type, GgmlType::kF32);
  EXPECT_THAT(MadeFloats(tensor, 2), ElementsAre(1.5f, -1));
}

// Three rows from 127 on: the scale of a block begins at row 128.
TEST(TensorRows, ACodeOfE4m3IsTimesTheScaleOfItsBlock) {
  const std::vector<uint8_t> codes(130, 0x38);  // 1
  const std::vector<float> scales = {0.5f, 3};
  TensorPlan plan;
  RowSource source = {.data = codes,
                      .type = SafeType::kF8E4m3,
                      .columns = 1,
                      .scales = BytesOfFloats(scales),
                      .scale_type = SafeType::kF32};
  plan.runs.push_back({.source = source, .first = 127, .count = 3});
  const ModelTensor tensor = PlannedTensor("t", {1, 3}, std::move(plan));
  ASSERT_EQ(tensor.type, GgmlType::kBf16);
  std::vector<uint16_t> made(3);
  tensor.maker.make(absl::MakeSpan(reinterpret_cast<uint8_t*>(made.data()), 6));
  EXPECT_THAT(made, ElementsAre(F32ToBf16(0.5f), F32ToBf16(3), F32ToBf16(3)));
}

}  // namespace
}  // namespace baton
