#include "common/backend/cuda/pass/pass_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

template <class T>
std::vector<T> Values(const T* first, size_t count) {
  return {first, first + count};
}

TEST(PassUpload, HasTheAnglesOfEachRopeAndTheScalesOfTheQueries) {
  const int32_t table[] = {0};
  Batch batch;
  batch.sequences = {{0, 3, 0, table, 1}};
  const std::vector<float> cosines[] = {{1, 2, 3}, {7, 8, 9, 10, 11, 12}};
  const std::vector<float> sines[] = {{-1, -2, -3}, {-7, -8, -9, -10, -11, -12}};
  const std::vector<float> scales = {1, 1.5f, 2};
  const Pass pass = {.batch = &batch,
                     .ropes = {{.pairs = RopePairs::kHalfSplit,
                                .dim = 2,
                                .cosines = cosines[0],
                                .sines = sines[0]},
                               {.dim = 4, .cosines = cosines[1], .sines = sines[1]}},
                     .query_scales = scales};
  const PassLayout layout(SizeOf(pass));
  std::vector<uint8_t> memory(layout.bytes, 0xff);
  FillPass(pass, layout, memory.data());
  EXPECT_THAT(Values(PassAt(pass, layout, memory.data()).query_scales, 3),
              ElementsAreArray(scales));
  const std::vector<CudaRope> ropes = RopesAt(pass, layout, memory.data());
  ASSERT_EQ(ropes.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(ropes[i].half_split, i == 0);
    EXPECT_EQ(ropes[i].dim, i == 0 ? 2 : 4);
    EXPECT_THAT(Values(ropes[i].cosines, cosines[i].size()), ElementsAreArray(cosines[i]));
    EXPECT_THAT(Values(ropes[i].sines, sines[i].size()), ElementsAreArray(sines[i]));
  }
}

TEST(PassUpload, HasEachRowsTableAndPositionAndTheTablesOneBehindTheOther) {
  const std::vector<int32_t> tables[] = {{7, 3, 9}, {4}, {2, 8}};
  Batch batch;
  batch.sequences = {{0, 3, 40, tables[0].data(), 3},
                     {3, 1, 0, tables[1].data(), 1},
                     {4, 2, 30, tables[2].data(), 2}};
  const Pass pass = {.batch = &batch};
  const PassLayout layout(SizeOf(pass));
  std::vector<uint8_t> memory(layout.bytes, 0xff);
  FillPass(pass, layout, memory.data());
  const CudaPass device = PassAt(pass, layout, memory.data());

  EXPECT_EQ(device.rows, 6);
  EXPECT_EQ(device.sequences, 3);
  EXPECT_EQ(device.query_scales, nullptr);
  EXPECT_THAT(RopesAt(pass, layout, memory.data()), testing::IsEmpty());
  EXPECT_THAT(Values(device.table_of_row, 6), ElementsAre(0, 0, 0, 3, 4, 4));
  EXPECT_THAT(Values(device.positions, 6), ElementsAre(40, 41, 42, 0, 30, 31));
  EXPECT_THAT(Values(device.first_rows, 4), ElementsAre(0, 3, 4, 6));
  EXPECT_THAT(Values(device.block_tables, 6), ElementsAre(7, 3, 9, 4, 2, 8));
}

TEST(PassUpload, HasRowsOfPaddingAtNoPositionAndRoomForAsManySequences) {
  const int32_t table[] = {7, 3};
  Batch batch;
  batch.tokens = {InputToken::PendingRow(5)};
  batch.sequences = {{0, 1, 20, table, 2}};
  const Pass pass = {.batch = &batch, .recorded = true, .padding_rows = 2};
  const PassLayout layout(SizeOf(pass));
  std::vector<uint8_t> memory(layout.bytes, 0xff);
  FillPass(pass, layout, memory.data());
  const CudaPass device = PassAt(pass, layout, memory.data());
  EXPECT_EQ(device.rows, 3);
  EXPECT_EQ(device.sequences, 3);
  EXPECT_THAT(Values(device.table_of_row, 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(Values(device.positions, 3), ElementsAre(20, -1, -1));
  EXPECT_THAT(Values(device.first_rows, 4), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(Values(device.block_tables, 2), ElementsAre(7, 3));
  const auto* const tokens = reinterpret_cast<const InputToken*>(memory.data() + layout.tokens);
  EXPECT_TRUE(tokens[0].pending());
  EXPECT_EQ(tokens[0].pending_row(), 5);
  for (int i = 1; i < 3; ++i) {
    EXPECT_FALSE(tokens[i].pending());
    EXPECT_EQ(tokens[i].id(), 0);
  }
  EXPECT_LE(layout.token_ids + 3 * sizeof(int32_t), layout.bytes);
}

// A recorded launch has the addresses of all arrays.
TEST(PassUpload, LeavesArraysWhereTheyAreHoweverLongTheTablesOfARecordedPass) {
  const std::vector<int32_t> table(20, 7);
  Batch batch;
  batch.tokens = {InputToken::Id(5)};
  batch.sequences = {{0, 1, 3, table.data(), 1}};
  const float cosines[] = {1, 2}, sines[] = {3, 4};
  const std::vector<float> scales = {1, 2};
  const Pass pass = {.batch = &batch,
                     .recorded = true,
                     .padding_rows = 1,
                     .ropes = {{.dim = 2, .cosines = cosines, .sines = sines}},
                     .query_scales = scales};
  const auto layout_of = [&pass] {
    PassSize size = SizeOf(pass);
    size.plan_words = 13;
    return PassLayout(size);
  };
  const PassLayout of_one = layout_of();
  batch.sequences[0].table_entries = 20;
  const PassLayout of_many = layout_of();
  const auto offsets = [](const PassLayout& layout) {
    return std::vector<size_t>{layout.table_of_row,  layout.positions,    layout.first_rows,
                               layout.tokens,        layout.token_ids,    layout.query_scales,
                               layout.plan,          layout.block_tables, layout.ropes[0].cosines,
                               layout.ropes[0].sines};
  };
  EXPECT_EQ(offsets(of_one), offsets(of_many));
  EXPECT_GT(of_many.bytes, of_one.bytes);
}

TEST(PassUpload, BeginsEachArrayAtASectorOfTheMemory) {
  const PassLayout layout(PassSize{.rows = 5,
                                   .sequences = 1,
                                   .table_entries = 1,
                                   .embeds = true,
                                   .scales_queries = true,
                                   .angles = {5, 7},
                                   .plan_words = 3});
  for (const size_t offset :
       {layout.table_of_row, layout.positions, layout.first_rows, layout.tokens, layout.token_ids,
        layout.plan, layout.block_tables, layout.query_scales, layout.ropes[0].cosines,
        layout.ropes[0].sines, layout.ropes[1].cosines, layout.ropes[1].sines}) {
    EXPECT_EQ(offset % 32, 0u);
    EXPECT_LE(offset, layout.bytes);
  }
}

}  // namespace
}  // namespace baton
