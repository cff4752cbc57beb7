#include "router/placement/prefix_reuse.h"

#include <gtest/gtest.h>

#include <set>

namespace baton {
namespace {

constexpr size_t kPage = kPrefixPageTokens;

std::vector<int32_t> Prompt(size_t pages, int32_t first) {
  std::vector<int32_t> ids(pages * kPage, 7);
  if (!ids.empty()) ids[0] = first;
  return ids;
}

TEST(PrefixReuse, CountsEachPageThatIsHeldAndNamesItsParent) {
  PrefixReuse reuse;
  const Hash128 root = PrefixRoot("model");
  reuse.Count(root, Prompt(3, 1), "salt");
  reuse.Count(root, Prompt(2, 1), "salt");
  reuse.Count(root, Prompt(2, 1), "another");
  const std::vector<PrefixReuse::Page> pages = reuse.MostReused(100);
  ASSERT_EQ(pages.size(), 5u);
  EXPECT_EQ(pages[0].count, 2u);
  EXPECT_EQ(pages[0].depth_tokens, kPage);
  EXPECT_FALSE(pages[0].parent.has_value());
  EXPECT_EQ(pages[1].count, 2u);
  EXPECT_EQ(pages[1].parent, pages[0].page);
  EXPECT_EQ(pages[4].count, 1u);
  EXPECT_EQ(pages[4].depth_tokens, 3 * kPage);
  EXPECT_EQ(pages[4].parent, pages[1].page);
}

TEST(PrefixReuse, TheMostReusedComeAfterTheirAncestors) {
  PrefixReuse reuse;
  const Hash128 root = PrefixRoot("model");
  for (int32_t prompt = 0; prompt < 50; ++prompt) {
    for (int32_t times = 0; times <= prompt; ++times) reuse.Count(root, Prompt(4, prompt), "");
  }
  const std::vector<PrefixReuse::Page> pages = reuse.MostReused(10);
  ASSERT_EQ(pages.size(), 10u);
  EXPECT_EQ(pages[0].count, 50u);
  std::set<uint64_t> seen;
  for (const PrefixReuse::Page& page : pages) {
    if (page.parent.has_value()) {
      EXPECT_EQ(seen.count(*page.parent), 1u);
    }
    seen.insert(page.page);
  }
}

TEST(PrefixReuse, StaysBoundedAndForgetsWhatIsSeldomReused) {
  PrefixReuse reuse;
  const Hash128 root = PrefixRoot("model");
  for (int i = 0; i < 100; ++i) reuse.Count(root, Prompt(2, -1), "");
  for (int32_t prompt = 0; prompt < 5000; ++prompt) reuse.Count(root, Prompt(1, prompt), "");
  const std::vector<PrefixReuse::Page> pages = reuse.MostReused(SIZE_MAX);
  EXPECT_LE(pages.size(), PrefixReuse::kMostPages);
  EXPECT_EQ(pages[0].count, 50u) << "halved once";
  EXPECT_EQ(pages[1].parent, pages[0].page);
  reuse.Count(root, Prompt(PrefixReuse::kMostPagesOfPrompt + 100, -2), "");
  for (const PrefixReuse::Page& page : reuse.MostReused(SIZE_MAX)) {
    EXPECT_LE(page.depth_tokens, PrefixReuse::kMostPagesOfPrompt * kPage);
  }
}

}  // namespace
}  // namespace baton
