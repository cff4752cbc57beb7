#include "router/placement/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace baton {
namespace {

using Hit = PrefixIndex::Hit;

std::vector<int32_t> Tokens(std::mt19937& random, size_t count, int kinds) {
  std::vector<int32_t> tokens;
  // Whole pages are equal or different, so that few tokens make many prefixes.
  while (tokens.size() < count) {
    tokens.insert(tokens.end(), kPrefixPageTokens, static_cast<int32_t>(random()) % kinds);
  }
  tokens.resize(count);
  return tokens;
}

std::vector<uint64_t> Pages(const Hash128& root, const std::vector<int32_t>& tokens,
                            const std::string& salt = "") {
  std::vector<uint64_t> pages;
  Hash128 link = root;
  for (size_t at = 0; at + kPrefixPageTokens <= tokens.size(); at += kPrefixPageTokens) {
    link = PrefixLink(link, absl::MakeConstSpan(tokens).subspan(at, kPrefixPageTokens),
                      at == 0 ? salt : "");
    pages.push_back(link.high);
  }
  return pages;
}

TEST(PrefixIndex, TellsHowFarEachWorkerHoldsThePrompt) {
  const Hash128 root = PrefixRoot("m"), other = PrefixRoot("n");
  std::mt19937 random(1);
  const std::vector<int32_t> prompt = Tokens(random, 70, 1000);
  const std::vector<uint64_t> pages = Pages(root, prompt);
  ASSERT_EQ(pages.size(), 4u);
  PrefixIndex index;
  for (uint32_t worker = 0; worker < 5; ++worker) {
    const auto held = absl::MakeConstSpan(pages).first(worker);
    EXPECT_TRUE(index.Apply(worker, {.version = 1, .full = true, .added = held}));
  }
  const std::vector<Hit> expected{{1, 16}, {2, 32}, {3, 48}, {4, 64}};
  EXPECT_EQ(index.Find(root, prompt, ""), expected);
  EXPECT_TRUE(index.Find(root, prompt, "salt").empty());
  EXPECT_TRUE(index.Find(other, prompt, "").empty());
  EXPECT_TRUE(index.Find(root, absl::MakeConstSpan(prompt).first(15), "").empty());
  EXPECT_TRUE(index.Find(root, absl::MakeConstSpan(prompt).subspan(16), "").empty());
  index.Forget(3);
  EXPECT_EQ(index.Find(root, prompt, ""), (std::vector<Hit>{{1, 16}, {2, 32}, {4, 64}}));
}

TEST(PrefixIndex, AHoleInThePagesEndsThePrefix) {
  const Hash128 root = PrefixRoot("m");
  std::mt19937 random(2);
  const std::vector<int32_t> prompt = Tokens(random, 64, 1000);
  const std::vector<uint64_t> pages = Pages(root, prompt);
  PrefixIndex index;
  index.Apply(1, {.version = 1, .full = true, .added = pages});
  index.Apply(2, {.version = 1, .full = true, .added = pages});
  const uint64_t gone = pages[1];
  index.Apply(1, {.version = 2, .removed = absl::MakeConstSpan(&gone, 1)});
  EXPECT_EQ(index.Find(root, prompt, ""), (std::vector<Hit>{{1, 16}, {2, 64}}));
}

// Workers that add, remove, list anew, restart and lose messages, against sets of pages.
TEST(PrefixIndex, AgreesWithAPlainReferenceUnderAnyDeltas) {
  const Hash128 root = PrefixRoot("m");
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    struct Truth {
      uint64_t version = 0;
      bool known = false;
      std::set<uint64_t> pages;
    };
    std::map<uint32_t, Truth> workers;
    PrefixIndex index;
    for (int step = 0; step < 300; ++step) {
      const uint32_t id = random() % 6;
      Truth& worker = workers[id];
      const std::vector<uint64_t> pages = Pages(root, Tokens(random, 16 * (1 + random() % 6), 2));
      const unsigned what = random() % 20;
      if (what == 0) {
        index.Forget(id);
        workers.erase(id);
        continue;
      }
      PrefixIndex::Delta delta{.version = ++worker.version, .full = what <= 2};
      if (what == 3) delta.version += 1 + random() % 3;  // messages were lost
      if (delta.full) {
        worker.pages.clear();
        worker.known = true;
      } else if (what == 3 || !worker.known) {
        worker.pages.clear();
        worker.known = false;
      }
      worker.version = delta.version;
      const bool adds = random() % 3 != 0;
      (adds ? delta.added : delta.removed) = pages;
      EXPECT_EQ(index.Apply(id, delta), worker.known);
      for (const uint64_t page : pages) {
        if (!worker.known) continue;
        if (adds) {
          worker.pages.insert(page);
        } else {
          worker.pages.erase(page);
        }
      }
      const std::vector<int32_t> prompt = Tokens(random, random() % 100, 2);
      std::vector<Hit> expected;
      for (const auto& [candidate, truth] : workers) {
        uint32_t tokens = 0;
        for (const uint64_t page : Pages(root, prompt)) {
          if (truth.pages.count(page) == 0) break;
          tokens += kPrefixPageTokens;
        }
        if (tokens > 0) expected.push_back({candidate, tokens});
      }
      ASSERT_EQ(index.Find(root, prompt, ""), expected) << "seed " << seed << " step " << step;
    }
    size_t pages = 0;
    for (const auto& [id, truth] : workers) pages += truth.pages.size();
    EXPECT_EQ(index.pages(), pages);
  }
}

TEST(PrefixIndex, StaysWithinItsBoundsAndLeavesEveryWorkerAPart) {
  std::mt19937_64 random(7);
  PrefixIndex index({.pages = 1000, .pages_of_worker = 200});
  for (int round = 0; round < 20; ++round) {
    for (uint32_t id = 0; id < 50; ++id) {
      std::vector<uint64_t> pages(100);
      for (uint64_t& page : pages) page = random();
      index.Apply(id, {.version = 1, .full = true, .added = pages});
      EXPECT_LE(index.pages(), 1000u);
    }
  }
  EXPECT_EQ(index.pages(), 1000u) << "20 pages each";
  PrefixIndex one({.pages = 1000, .pages_of_worker = 200});
  std::vector<uint64_t> pages(500);
  for (uint64_t& page : pages) page = random();
  one.Apply(1, {.version = 1, .full = true, .added = pages});
  EXPECT_EQ(one.pages(), 200u);
}

}  // namespace
}  // namespace baton
