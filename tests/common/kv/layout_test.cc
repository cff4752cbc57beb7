#include "common/kv/layout.h"

#include <vector>

#include "gtest/gtest.h"

#include "common/backend/make_backend.h"
#include "common/handoff/kv_blocks.h"
#include "common/kv/cache.h"

namespace baton {
namespace {

std::vector<KvLayout> Layouts() {
  std::vector<KvLayout> layouts;
  for (const KvType dtype : kAllKvTypes) {
    for (const int head_dim : {16, 64, 80, 96}) {
      if (!TakesHeadDim(dtype, static_cast<size_t>(head_dim))) continue;
      for (const int kv_heads : {1, 3}) {
        for (const int block_size : {16, 48}) {
          layouts.push_back({.layers = 3,
                             .kv_heads = kv_heads,
                             .head_dim = head_dim,
                             .block_size = block_size,
                             .dtype = dtype});
        }
      }
    }
  }
  return layouts;
}

TEST(KvLayout, RowsAndScalesFillABlockWithoutAGapOrAnOverlap) {
  for (const KvLayout& layout : Layouts()) {
    std::vector<int> uses(layout.block_bytes());
    const auto use = [&](size_t offset, size_t bytes) {
      ASSERT_LE(offset + bytes, uses.size());
      for (size_t i = 0; i < bytes; ++i) ++uses[offset + i];
    };
    for (int layer = 0; layer < layout.layers; ++layer) {
      for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
        for (int token = 0; token < layout.block_size; ++token) {
          const size_t row = layout.RowOffset(layer, part, token);
          const size_t scale = layout.ScaleOffset(layer, part, token);
          use(row, layout.row_bytes());
          use(scale, layout.scale_bytes());
          // One layer of a block is one region.
          const size_t first = static_cast<size_t>(layer) * layout.layer_bytes();
          EXPECT_GE(row, first);
          EXPECT_LE(scale + layout.scale_bytes(), first + layout.layer_bytes());
        }
      }
    }
    EXPECT_EQ(uses, std::vector<int>(uses.size(), 1)) << static_cast<int>(layout.dtype);
  }
}

TEST(KvLayout, HeadsBeginAtMultiplesOf16AndScalesAtMultiplesOfTheirSize) {
  for (const KvLayout& layout : Layouts()) {
    const size_t scale = layout.dtype == KvType::kInt4 ? 2 : 4;
    EXPECT_EQ(layout.layer_bytes() % 16, 0u);
    EXPECT_EQ(layout.row_bytes() / static_cast<size_t>(layout.kv_heads) % 16, 0u);
    for (int layer = 0; layer < layout.layers; ++layer) {
      for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
        EXPECT_EQ(layout.RowOffset(layer, part, 1) % 16, 0u);
        EXPECT_EQ(layout.ScaleOffset(layer, part, 1) % scale, 0u);
      }
    }
  }
}

TEST(KvLayout, ATokenOfAByteAnElementTakesHalfOfAHalfAndItsScales) {
  KvLayout layout = {.layers = 30, .kv_heads = 3, .head_dim = 64, .dtype = KvType::kF16};
  EXPECT_EQ(layout.bytes_per_token(), 2u * 30 * 3 * 64 * 2);
  for (const KvType dtype : {KvType::kInt8, KvType::kFp8}) {
    layout.dtype = dtype;
    EXPECT_EQ(layout.bytes_per_token(), 2u * 30 * 3 * (64 + 4));
    EXPECT_EQ(layout.block_bytes(), layout.bytes_per_token() * 32);
  }
}

TEST(KvLayout, ATokenOfHalfAByteAnElementTakes18BytesForEach32) {
  const KvLayout layout = {.layers = 30, .kv_heads = 3, .head_dim = 64, .dtype = KvType::kInt4};
  EXPECT_EQ(layout.bytes_per_token(), 2u * 30 * 3 * 2 * 18);
  EXPECT_EQ(layout.block_bytes(), layout.bytes_per_token() * 32);
}

// Every byte of the page's tokens changes its CRC, and no other.
TEST(KvCache, TheCrcOfAPageIsOfItsRowsAndScales) {
  const auto backend = *MakeBackend({.device = "cpu", .threads = 1});
  for (const KvType dtype : kAllKvTypes) {
    const KvLayout layout = {
        .layers = 2, .kv_heads = 2, .head_dim = 32, .block_size = 32, .dtype = dtype};
    const auto cache = *KvCache::Create(*backend, layout, 2);
    uint8_t* const block = cache->Block(1);
    for (size_t i = 0; i < layout.block_bytes(); ++i) block[i] = static_cast<uint8_t>(i * 7 % 251);
    constexpr int kTokens = 5;  // tokens of page 1, in layer 1
    std::vector<bool> of_page(layout.block_bytes());
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = 16; token < 16 + kTokens; ++token) {
        for (size_t i = 0; i < layout.row_bytes(); ++i) {
          of_page[layout.RowOffset(1, part, token) + i] = true;
        }
        for (size_t i = 0; i < layout.scale_bytes(); ++i) {
          of_page[layout.ScaleOffset(1, part, token) + i] = true;
        }
      }
    }
    const KvBlocks blocks{cache->Block(0), layout, {1}};
    const uint32_t crc = cache->ComputePageCrc(1, 1, 1, kTokens);
    EXPECT_EQ(blocks.PageCrc(1, {16, 16 + kTokens}), crc);
    for (size_t i = 0; i < layout.block_bytes(); ++i) {
      block[i] ^= 0x10;
      EXPECT_EQ(cache->ComputePageCrc(1, 1, 1, kTokens) != crc, of_page[i]) << i;
      block[i] ^= 0x10;
    }
  }
}

TEST(KvCache, LayersAreSeenWhereTheLayoutHasThem) {
  const auto backend = *MakeBackend({.device = "cpu", .threads = 1});
  for (const KvLayout& layout : Layouts()) {
    const auto cache = *KvCache::Create(*backend, layout, 2);
    for (int layer = 0; layer < layout.layers; ++layer) {
      const KvLayerView view = cache->LayerView(layer);
      for (const int token : {0, 1, layout.block_size - 1}) {
        EXPECT_EQ(view.KeyRow(1, token),
                  cache->Block(1) + layout.RowOffset(layer, KvLayout::kKeys, token));
        EXPECT_EQ(view.ValueRow(1, token),
                  cache->Block(1) + layout.RowOffset(layer, KvLayout::kValues, token));
        EXPECT_EQ(view.KeyScales(1, token),
                  cache->Block(1) + layout.ScaleOffset(layer, KvLayout::kKeys, token));
        EXPECT_EQ(view.ValueScales(1, token),
                  cache->Block(1) + layout.ScaleOffset(layer, KvLayout::kValues, token));
      }
    }
  }
}

}  // namespace
}  // namespace baton
