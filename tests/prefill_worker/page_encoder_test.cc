#include "prefill_worker/page_encoder.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/float_types.h"
#include "tests/support/shuffled_blocks.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr int kEncodedTokens = 24;  // a page of 16 and one of 8

// A cache of halves in blocks of 16 tokens; the wire has float32.
class PageEncoderTest : public ::testing::Test {
 protected:
  PageEncoderTest() {
    for (int layer = 0; layer < layout_.layers; ++layer) {
      for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
        for (int token = 0; token < kEncodedTokens; ++token) {
          Set(layer, part, token, ValueOf(layer, part, token));
        }
      }
    }
  }
  static float ValueOf(int layer, KvLayout::Part part, int token) {
    return static_cast<float>(1000 * layer + 100 * (part == KvLayout::kValues) + token);
  }
  // Sets both values of a row.
  void Set(int layer, KvLayout::Part part, int token, float value) {
    const uint16_t half = F32ToF16(value);
    for (int i = 0; i < 2; ++i) {
      std::memcpy(blocks_.Row(layer, part, token) + 2 * i, &half, sizeof(half));
    }
  }
  std::vector<uint32_t> CachedCrcs(int layer) const {
    return {blocks_.PageCrc(layer, {0, 16}), blocks_.PageCrc(layer, {16, kEncodedTokens})};
  }

  const KvLayout layout_ = {.layers = 2, .kv_heads = 1, .head_dim = 2, .block_size = 16};
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2 * layout_.block_bytes());
  const KvBlocks blocks_ = {memory_.data(), layout_, {1, 0}};
  const KvWireFormat wire_{layout_, KvType::kF32};
};

TEST_F(PageEncoderTest, TokensOfSeveralBlocksFollowEachOther) {
  std::vector<float> values(2 * 10);
  ASSERT_TRUE(EncodeTokens(RowsOfLayer(blocks_, 1), wire_, KvLayout::kValues, {10, 20},
                           reinterpret_cast<uint8_t*>(values.data())));
  for (int token = 10; token < 20; ++token) {
    EXPECT_EQ(values[static_cast<size_t>(2 * (token - 10))], 1100.0f + static_cast<float>(token));
  }
}

TEST_F(PageEncoderTest, APageHasTheBytesOfTheWireAndTheirCrc) {
  const KvLayout page_layout = wire_.BlockOf(16);
  std::vector<uint8_t> page_memory(page_layout.block_bytes());
  const KvBlocks page = {page_memory.data(), page_layout, {0}};
  const KvLayerRows to = {&page, 1, 0, 16};
  const auto crc = EncodePage(RowsOfLayer(blocks_, 1), wire_, {16, kEncodedTokens}, to);
  ASSERT_TRUE(crc.ok()) << crc.status();
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    for (int token = 16; token < kEncodedTokens; ++token) {
      float value = 0;
      std::memcpy(&value, page.Row(0, part, token - 16), sizeof(value));
      EXPECT_EQ(value, ValueOf(1, part, token));
    }
  }
  EXPECT_EQ(*crc, page.PageCrc(0, {0, 8}));
  const auto crcs =
      WirePageCrcs(RowsOfLayer(blocks_, 1), wire_, {0, kEncodedTokens}, CachedCrcs(1));
  ASSERT_TRUE(crcs.ok()) << crcs.status();
  ASSERT_EQ(crcs->size(), 2u);
  EXPECT_EQ(crcs->at(1), *crc);
}

TEST_F(PageEncoderTest, APageThatIsNotAsItWasComputedIsNamed) {
  const std::vector<uint32_t> crcs = CachedCrcs(0);
  Set(0, KvLayout::kValues, 20, 0.5f);
  const KvLayerRows rows = RowsOfLayer(blocks_, 0);
  EXPECT_TRUE(WirePageCrcs(rows, wire_, {0, 16}, {crcs.data(), 1}).ok());
  EXPECT_EQ(WirePageCrcs(rows, wire_, {0, kEncodedTokens}, crcs).status(),
            ChangedSinceComputed({0, {16, kEncodedTokens}}));
  EXPECT_EQ(ChangedSinceComputed({0, {16, kEncodedTokens}}),
            absl::DataLossError("KV of layer 0, tokens 16 to 23: the bytes in the cache are not "
                                "those that were computed"));
}

TEST_F(PageEncoderTest, AValueThatTheWireCannotSayIsRefused) {
  const KvWireFormat int8(layout_, KvType::kInt8);
  Set(0, KvLayout::kKeys, 3, INFINITY);
  const KvLayerRows rows = RowsOfLayer(blocks_, 0);
  std::vector<uint8_t> out(16 * int8.row_bytes());
  EXPECT_FALSE(EncodeTokens(rows, int8, KvLayout::kKeys, {0, 16}, out.data()));
  EXPECT_TRUE(EncodeTokens(rows, int8, KvLayout::kKeys, {4, 16}, out.data()));
  EXPECT_TRUE(EncodeTokens(rows, int8, KvLayout::kValues, {0, 16}, out.data()));
  const absl::Status status = WirePageCrcs(rows, int8, {0, kEncodedTokens}, CachedCrcs(0)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("layer 0, tokens 0 to 15: a value that is not finite, or too large, cannot "
                        "be sent as int8"));
}

constexpr int kShuffledTokens = 75;  // pages of 16, 16, 16, 16 and 11

TEST(PageEncoder, APageThatChangedSinceItWasComputedIsNotSent) {
  ShuffledBlocks source(KvType::kF16, 16, {4, 0, 6, 2, 5});
  source.Fill(kShuffledTokens);
  const KvWireFormat format(source.layout, KvType::kInt8);
  const std::vector<uint32_t> crcs = CachedCrcs(source.blocks, 1, 0, kShuffledTokens);
  ASSERT_TRUE(WirePageCrcs(RowsOfLayer(source.blocks, 1), format, {0, kShuffledTokens}, crcs).ok());
  source.blocks.Row(1, KvLayout::kValues, 70)[3] ^= 1;
  const absl::Status status =
      WirePageCrcs(RowsOfLayer(source.blocks, 1), format, {0, kShuffledTokens}, crcs).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 1, tokens 64 to 74"));
  EXPECT_TRUE(WirePageCrcs(RowsOfLayer(source.blocks, 2), format, {0, kShuffledTokens},
                           CachedCrcs(source.blocks, 2, 0, kShuffledTokens))
                  .ok());
}

TEST(PageEncoder, AnInfiniteValueIsRefusedAsInt8AndTheRemedyNamed) {
  ShuffledBlocks source(KvType::kBf16, 16, {4, 0, 6, 2, 5});
  source.Fill(kShuffledTokens);
  std::vector<float> row = source.Get(0, KvLayout::kKeys, 20);
  row[47] = INFINITY;
  source.Set(0, KvLayout::kKeys, 20, row);
  const std::vector<uint32_t> crcs = CachedCrcs(source.blocks, 0, 0, kShuffledTokens);
  const absl::Status status =
      WirePageCrcs(RowsOfLayer(source.blocks, 0), KvWireFormat(source.layout, KvType::kInt8),
                   {0, kShuffledTokens}, crcs)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 0, tokens 16 to 31"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--kv-wire-dtype"));
  EXPECT_TRUE(WirePageCrcs(RowsOfLayer(source.blocks, 0), KvWireFormat(source.layout, KvType::kF32),
                           {0, kShuffledTokens}, crcs)
                  .ok());
}

}  // namespace
}  // namespace baton
