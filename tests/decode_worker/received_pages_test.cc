#include "decode_worker/received_pages.h"

#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

using Verdict = ReceivedPages::Verdict;

constexpr int kTokens = 50;

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
  ReceivedPages pages(2, kTokens);
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
  ReceivedPages pages(2, kTokens);
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
  ReceivedPages pages(2, kTokens);
  pages.SetStart(32);
  const auto rest = Header({32, kTokens});
  const ReceivedPages::Plan plan = pages.PlanFor(rest);
  pages.BeginCopy(plan.ranges);
  EXPECT_FALSE(pages.CoveredBefore(kTokens));
  EXPECT_TRUE(pages.EndCopy(rest, plan.ranges, Done(rest)));
  EXPECT_TRUE(pages.CoveredBefore(kTokens));
}

}  // namespace
}  // namespace baton
