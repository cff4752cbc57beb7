#include "decode_worker/received_pages.h"

#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

using Verdict = ReceivedPages::Verdict;

constexpr int kTokens = 50;
const KvLayout kLayout = {.layers = 2, .kv_heads = 1, .head_dim = 4, .block_size = 16};

// Two layers of a message; each page's CRC is 100 * layer + page + `salt`.
internal::v1::KvDataHeader Header(TokenRange tokens, uint32_t salt = 0) {
  internal::v1::KvDataHeader header;
  header.set_layer_count(2);
  header.set_first_token(static_cast<uint32_t>(tokens.begin));
  header.set_token_count(static_cast<uint32_t>(tokens.size()));
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (const TokenRange page : PagesOf(tokens)) {
      header.add_page_crc32c(100 * layer + static_cast<uint32_t>(page.begin / kKvPageTokens) +
                             salt);
    }
  }
  return header;
}

// What a copy of the whole message gives.
ReceiveEvent::CopyDone Done(const internal::v1::KvDataHeader& header) {
  return {1, true, {header.page_crc32c().begin(), header.page_crc32c().end()}, {}};
}

TEST(ReceivedPages, OnlyEmptyPagesAreCopied) {
  ReceivedPages pages(kLayout, kTokens);
  const auto first = Header({0, 16});
  const auto all = Header({0, kTokens});
  ReceivedPages::Plan plan = pages.PlanFor(first);
  ASSERT_EQ(plan.verdict, Verdict::kCopy);
  pages.BeginCopy(plan.ranges);
  EXPECT_EQ(pages.PlanFor(all).verdict, Verdict::kWait);
  EXPECT_TRUE(pages.EndCopy(first, plan.ranges, Done(first)));
  EXPECT_EQ(pages.PlanFor(first).verdict, Verdict::kCovered);
  EXPECT_EQ(pages.PlanFor(Header({0, 16}, 1)).verdict, Verdict::kDiffers);
  plan = pages.PlanFor(all);
  EXPECT_EQ(plan.verdict, Verdict::kCopy);
  const std::vector<LayerTokens> rest = {{0, {16, kTokens}}, {1, {16, kTokens}}};
  EXPECT_EQ(plan.ranges, rest);
}

TEST(ReceivedPages, APageWhoseCrcDiffersIsEmptyAgain) {
  ReceivedPages pages(kLayout, kTokens);
  const auto all = Header({0, kTokens});
  const ReceivedPages::Plan plan = pages.PlanFor(all);
  pages.BeginCopy(plan.ranges);
  ReceiveEvent::CopyDone done = Done(all);
  ++done.page_crcs[5];  // page 1 of layer 1
  EXPECT_FALSE(pages.EndCopy(all, plan.ranges, done));
  EXPECT_FALSE(pages.Covers(all));
  EXPECT_TRUE(pages.CoveredBefore(16));
  EXPECT_FALSE(pages.CoveredBefore(32));
  EXPECT_EQ(pages.PlanFor(all).ranges, (std::vector<LayerTokens>{{1, {16, 32}}}));
}

TEST(ReceivedPages, WhatWasHeldAtTheStartNeedNotCome) {
  ReceivedPages pages(kLayout, kTokens);
  pages.SetStart(32);
  const auto rest = Header({32, kTokens});
  const ReceivedPages::Plan plan = pages.PlanFor(rest);
  pages.BeginCopy(plan.ranges);
  EXPECT_FALSE(pages.CoveredBefore(kTokens));
  EXPECT_TRUE(pages.EndCopy(rest, plan.ranges, Done(rest)));
  EXPECT_TRUE(pages.CoveredBefore(kTokens));
}

// Layer 0 carries all 200 tokens, layer 1 the tokens from 112 on.
TEST(ReceivedPages, ALayerWithAWindowIsCoveredFromWhereItBegins) {
  KvLayout layout = kLayout;
  layout.groups = KvLayerGroups({0, 16});
  ReceivedPages pages(layout, 200);
  const auto receive = [&pages](int layer, TokenRange tokens) {
    internal::v1::KvDataHeader header;
    header.set_first_layer(static_cast<uint32_t>(layer));
    header.set_layer_count(1);
    header.set_first_token(static_cast<uint32_t>(tokens.begin));
    header.set_token_count(static_cast<uint32_t>(tokens.size()));
    for (const TokenRange page : PagesOf(tokens)) {
      header.add_page_crc32c(static_cast<uint32_t>(page.begin));
    }
    const ReceivedPages::Plan plan = pages.PlanFor(header);
    pages.BeginCopy(plan.ranges);
    EXPECT_TRUE(pages.EndCopy(header, plan.ranges, Done(header)));
    EXPECT_TRUE(pages.Covers(header));
  };
  receive(0, {0, 128});
  EXPECT_TRUE(pages.CoveredBefore(64)) << "layer 1 carries nothing before 112";
  EXPECT_TRUE(pages.CoveredBefore(112));
  EXPECT_FALSE(pages.CoveredBefore(128));
  receive(1, {112, 128});
  EXPECT_TRUE(pages.CoveredBefore(128));
  receive(0, {128, 200});
  EXPECT_FALSE(pages.CoveredBefore(200));
  receive(1, {128, 200});
  EXPECT_TRUE(pages.CoveredBefore(200));
}

}  // namespace
}  // namespace baton
