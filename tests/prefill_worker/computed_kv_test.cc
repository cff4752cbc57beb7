#include "prefill_worker/computed_kv.h"

#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

const KvLayout kSmallLayout = {.layers = 3, .kv_heads = 1, .head_dim = 4, .block_size = 16};
constexpr size_t kTokenBytes = 16;
constexpr size_t kPageBytes = 16 * kTokenBytes;

// Each page's CRC is 100 * layer + page.
SendEvent::LayerReady Ready(int layer, TokenRange tokens) {
  SendEvent::LayerReady ready{{layer, tokens}, {}};
  for (const TokenRange page : PagesOf(tokens)) {
    ready.page_crcs.push_back(static_cast<uint32_t>(100 * layer + page.begin / kKvPageTokens));
  }
  return ready;
}

TEST(ComputedKv, ALayerThatIsTooLargeGoesPageByPage) {
  ComputedKv kv(kSmallLayout, 50, kTokenBytes, 0);
  kv.Add(Ready(1, {0, 50}));
  std::vector<LayerTokens> sent;
  while (const auto piece = kv.Next(kPageBytes)) {
    EXPECT_EQ(piece->layers, 1);
    EXPECT_EQ(piece->payload_bytes, static_cast<size_t>(piece->first.tokens.size()) * kTokenBytes);
    sent.push_back(piece->first);
    kv.Take(*piece);
  }
  const std::vector<LayerTokens> pages = {
      {1, {0, 16}}, {1, {16, 32}}, {1, {32, 48}}, {1, {48, 50}}};
  EXPECT_EQ(sent, pages);
  EXPECT_TRUE(kv.all_sent());
}

TEST(ComputedKv, SmallLayersWaitForEachOtherUntilTheLastOrAFlush) {
  ComputedKv kv(kSmallLayout, 16, kTokenBytes, 10 * kPageBytes);
  kv.Add(Ready(0, {0, 16}));
  EXPECT_FALSE(kv.Next(100 * kPageBytes).has_value()) << "more layers come";
  kv.Add(Ready(1, {0, 16}));
  kv.Flush();
  auto piece = kv.Next(100 * kPageBytes);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->layers, 2);
  kv.Take(*piece);
  kv.Add(Ready(2, {0, 16}));
  piece = kv.Next(100 * kPageBytes);
  ASSERT_TRUE(piece.has_value()) << "the last layer waits for nothing";
  EXPECT_EQ(piece->first, (LayerTokens{2, {0, 16}}));
}

TEST(ComputedKv, WhatTheReceiverHoldsIsNotSent) {
  ComputedKv kv(kSmallLayout, 64, kTokenBytes, 0);
  kv.Add(Ready(0, {0, 16}));
  kv.Add(Ready(0, {16, 64}));
  kv.SetStart(32);
  const auto piece = kv.Next(100 * kPageBytes);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->first, (LayerTokens{0, {32, 64}}));
}

// Layers 0 and 2 carry all 200 tokens, layer 1 the tokens from 112 on.
KvLayout LayoutWithWindow() {
  KvLayout layout = kSmallLayout;
  layout.groups = KvLayerGroups({0, 16, 0});
  return layout;
}

TEST(ComputedKv, ALayerWaitsForNoNeighbourThatCarriesNothingOfTheChunk) {
  ComputedKv kv(LayoutWithWindow(), 200, kTokenBytes, 100 * kPageBytes);
  kv.Add(Ready(0, {0, 64}));
  auto piece = kv.Next(1000 * kPageBytes);
  ASSERT_TRUE(piece.has_value()) << "layer 1 carries nothing of it";
  EXPECT_EQ(piece->first, (LayerTokens{0, {0, 64}}));
  EXPECT_EQ(piece->layers, 1);
}

TEST(ComputedKv, LayersThatBeginElsewhereGoInMessagesOfTheirOwn) {
  ComputedKv kv(LayoutWithWindow(), 200, kTokenBytes, 0);
  kv.Add(Ready(0, {64, 128}));
  kv.Add(Ready(1, {112, 128}));
  kv.Add(Ready(2, {64, 128}));
  std::vector<LayerTokens> sent;
  while (const auto piece = kv.Next(1000 * kPageBytes)) {
    EXPECT_EQ(piece->layers, 1);
    sent.push_back(piece->first);
    kv.Take(*piece);
  }
  const std::vector<LayerTokens> expected = {{0, {64, 128}}, {1, {112, 128}}, {2, {64, 128}}};
  EXPECT_EQ(sent, expected);
}

TEST(ComputedKv, WhereTheReceiverHoldsMoreThanALayerSkipsTheyGoTogether) {
  ComputedKv kv(LayoutWithWindow(), 200, kTokenBytes, 100 * kPageBytes);
  kv.SetStart(112);
  kv.Add(Ready(0, {64, 128}));
  EXPECT_FALSE(kv.Next(1000 * kPageBytes).has_value()) << "layer 1 carries the same";
  kv.Add(Ready(1, {112, 128}));
  kv.Add(Ready(2, {64, 128}));
  const auto piece = kv.Next(1000 * kPageBytes);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->first, (LayerTokens{0, {112, 128}}));
  EXPECT_EQ(piece->layers, 3);
}

TEST(ComputedKv, AMessageHasTheCrcsOfItsPagesByLayer) {
  ComputedKv kv(kSmallLayout, 64, kTokenBytes, 0);
  for (int layer = 0; layer < 3; ++layer) kv.Add(Ready(layer, {16, 48}));
  internal::v1::KvDataHeader header;
  kv.Describe({.first = {1, {16, 48}}, .layers = 2}, header);
  const std::vector<uint32_t> crcs(header.page_crc32c().begin(), header.page_crc32c().end());
  EXPECT_EQ(crcs, (std::vector<uint32_t>{101, 102, 201, 202}));
  EXPECT_EQ(header.first_layer(), 1u);
  EXPECT_EQ(header.layer_count(), 2u);
  EXPECT_EQ(header.first_token(), 16u);
  EXPECT_EQ(header.token_count(), 32u);
  EXPECT_EQ(header.state_kind(), internal::v1::LAYER_STATE_KIND_ROWS);
  EXPECT_FALSE(kv.SentBefore(17));
  EXPECT_TRUE(kv.SentBefore(16));
}

}  // namespace
}  // namespace baton
