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

TEST(PassUpload, HasEachRowsSequenceAndPositionAndTheTablesSideBySide) {
  const std::vector<int32_t> tables[] = {{7, 3, 9}, {4}, {2, 8}};
  const std::vector<PassSequence> sequences = {{0, 3, 40, tables[0].data(), 3},
                                               {3, 1, 0, tables[1].data(), 1},
                                               {4, 2, 30, tables[2].data(), 2}};
  const std::vector<float> cosines = {1, 2, 3, 4, 5, 6};
  const std::vector<float> sines = {-1, -2, -3, -4, -5, -6};
  const Pass pass = {.rows = 6,
                     .sequences = sequences,
                     .rope_pairs = RopePairs::kHalfSplit,
                     .rope_dim = 2,
                     .rope_cos = cosines,
                     .rope_sin = sines};
  const PassLayout layout(pass);
  std::vector<uint8_t> memory(layout.bytes, 0xff);
  FillPass(pass, layout, memory.data());
  const CudaPass device = PassAt(pass, layout, memory.data());

  EXPECT_EQ(device.rows, 6);
  EXPECT_EQ(device.sequences, 3);
  EXPECT_EQ(device.table_stride, 3);
  EXPECT_TRUE(device.rope_half_split);
  EXPECT_EQ(device.rope_dim, 2);
  EXPECT_THAT(Values(device.sequence_of_row, 6), ElementsAre(0, 0, 0, 1, 2, 2));
  EXPECT_THAT(Values(device.positions, 6), ElementsAre(40, 41, 42, 0, 30, 31));
  EXPECT_THAT(Values(device.first_rows, 4), ElementsAre(0, 3, 4, 6));
  EXPECT_THAT(Values(device.block_tables, 9), ElementsAre(7, 3, 9, 4, 0, 0, 2, 8, 0));
  EXPECT_THAT(Values(device.rope_cos, 6), ElementsAreArray(cosines));
  EXPECT_THAT(Values(device.rope_sin, 6), ElementsAreArray(sines));
}

TEST(PassUpload, HasRowsOfPaddingAtNoPositionAndTablesAsLongAsAskedFor) {
  const int32_t table[] = {7, 3};
  const std::vector<PassSequence> sequences = {{0, 1, 20, table, 2}};
  const std::vector<int32_t> token_ids = {5, 0, 0};
  const Pass pass = {.rows = 3, .recorded = true, .token_ids = token_ids, .sequences = sequences};
  const PassLayout layout(pass, /*least_stride=*/4);
  std::vector<uint8_t> memory(layout.bytes, 0xff);
  FillPass(pass, layout, memory.data());
  const CudaPass device = PassAt(pass, layout, memory.data());
  EXPECT_EQ(device.rows, 3);
  EXPECT_EQ(device.sequences, 3);
  EXPECT_EQ(device.table_stride, 4);
  EXPECT_THAT(Values(device.sequence_of_row, 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(Values(device.positions, 3), ElementsAre(20, -1, -1));
  EXPECT_THAT(Values(device.first_rows, 4), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(Values(device.block_tables, 12), ElementsAre(7, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  const auto* const ids = reinterpret_cast<const int32_t*>(memory.data() + layout.token_ids);
  EXPECT_THAT(Values(ids, 3), ElementsAre(5, 0, 0));
}

TEST(PassUpload, BeginsEachArrayAtAMultipleOf16Bytes) {
  const int32_t table[] = {1};
  const std::vector<PassSequence> sequences = {{0, 5, 3, table, 1}};
  const PassLayout layout(Pass{.rows = 5, .sequences = sequences});
  for (const size_t offset : {layout.sequence_of_row, layout.positions, layout.first_rows,
                              layout.block_tables, layout.rope_cos, layout.rope_sin}) {
    EXPECT_EQ(offset % 16, 0u);
    EXPECT_LE(offset, layout.bytes);
  }
}

}  // namespace
}  // namespace baton
