#include "router/fleet/worker_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/base/prefix_hash.h"

namespace baton {
namespace {

class WorkerPagesTest : public testing::Test {
 protected:
  WorkerPagesTest() {
    first_.id = 11;
    second_.id = 12;
    other_model_.id = 13;
    first_.prefix_root = second_.prefix_root = PrefixRoot("model");
    other_model_.prefix_root = PrefixRoot("other model");
    for (Worker* worker : {&first_, &second_, &other_model_}) {
      pages_.Add(*worker);
      pages_.List(*worker);
    }
  }
  // The worker says that it holds so many pages of the prompt, and nothing else.
  bool Announce(const Worker& worker, size_t pages, uint64_t version = 1, bool full = true) {
    internal::v1::PrefixDelta delta;
    delta.set_version(version);
    delta.set_full(full);
    Hash128 link = worker.prefix_root;
    for (size_t page = 0; page < pages; ++page) {
      link = PrefixLink(
          link, absl::MakeConstSpan(prompt_).subspan(page * kPrefixPageTokens, kPrefixPageTokens),
          "");
      delta.add_added(link.high);
    }
    return pages_.Apply(worker, delta);
  }
  // Tokens of the prompt, by the id of the worker that holds them.
  std::map<uint64_t, uint32_t> Held() const {
    std::map<uint64_t, uint32_t> held;
    for (const ReadyWorkers::Held& one : pages_.Find(prompt_, "")) {
      EXPECT_TRUE(held.emplace(one.worker_id, one.tokens).second);
    }
    return held;
  }

  using Expected = std::map<uint64_t, uint32_t>;
  const std::vector<int32_t> prompt_ = std::vector<int32_t>(4 * kPrefixPageTokens, 5);
  Worker first_, second_, other_model_;
  WorkerPages pages_;
};

TEST_F(WorkerPagesTest, NamesSomeOfTheHoldersOfAReusedPageAndCountsAll) {
  Announce(first_, 2);
  Announce(second_, 1);
  pages_.Reused(second_, prompt_, "", 2 * kPrefixPageTokens);
  const std::vector<WorkerPages::ReusedPage> pages = pages_.MostReused(10, 1);
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_EQ(pages[0].holders, 2u);
  EXPECT_EQ(pages[0].workers, std::vector<const Worker*>{&first_});
  EXPECT_EQ(pages[1].holders, 1u);
  EXPECT_EQ(pages[1].workers, std::vector<const Worker*>{&first_});
}

TEST_F(WorkerPagesTest, TellsWhichWorkersOfAnyModelHoldHowMuchOfAPrompt) {
  EXPECT_TRUE(Announce(first_, 1));
  EXPECT_TRUE(Announce(second_, 3));
  EXPECT_TRUE(Announce(other_model_, 2));
  EXPECT_EQ(Held(), (Expected{{11, 16}, {12, 48}, {13, 32}}));
  EXPECT_EQ(pages_.pages(second_), 3u);
}

TEST_F(WorkerPagesTest, LooksUnderTheRootOfListedWorkersOnly) {
  EXPECT_TRUE(Announce(first_, 1));
  EXPECT_TRUE(Announce(other_model_, 2));
  pages_.Unlist(second_);  // another worker of its model is listed
  pages_.Unlist(other_model_);
  EXPECT_EQ(Held(), (Expected{{11, 16}}));
}

TEST_F(WorkerPagesTest, KnowsNothingOfAWorkerAfterAGapInItsMessages) {
  EXPECT_TRUE(Announce(first_, 2));
  EXPECT_FALSE(Announce(first_, 3, 3, false));
  EXPECT_EQ(Held(), Expected());
  EXPECT_TRUE(Announce(first_, 1, 9));
  EXPECT_EQ(Held(), (Expected{{11, 16}}));
}

TEST_F(WorkerPagesTest, ForgetsWhatARemovedWorkerHeldAndGivesEachWorkerASlotOfItsOwn) {
  EXPECT_TRUE(Announce(first_, 2));
  EXPECT_TRUE(Announce(second_, 2));
  pages_.Unlist(first_);
  pages_.Remove(first_);
  Worker third;
  third.id = 14;
  third.prefix_root = second_.prefix_root;
  pages_.Add(third);
  EXPECT_NE(third.slot, first_.slot);
  EXPECT_NE(third.slot, second_.slot);
  EXPECT_EQ(Held(), (Expected{{12, 32}}));
}

// A prompt of 256 tokens on a worker with blocks of 32 and layers that see 40 keys.
class WorkerPagesWindowTest : public testing::TestWithParam<internal::v1::WorkerRole> {
 protected:
  WorkerPagesWindowTest() {
    worker_.id = 11;
    worker_.target.role = GetParam();
    worker_.prefix_root = PrefixRoot("model");
    worker_.seen.block_size = 32;
    const std::vector<int> windows = {0, 40};
    worker_.seen.groups = KvLayerGroups(windows);
    pages_.Add(worker_);
    pages_.List(worker_);
  }
  // The tokens that serve where it holds the first `pages` pages, and these of the window.
  uint32_t Served(size_t pages, const std::vector<size_t>& of_window) {
    internal::v1::PrefixDelta delta;
    delta.set_full(true);
    Hash128 link = worker_.prefix_root;
    for (size_t page = 0; page < 16; ++page) {
      link = PrefixLink(link, absl::MakeConstSpan(prompt_).subspan(page * 16, 16), "");
      if (page < pages) delta.add_added(link.high);
      if (std::count(of_window.begin(), of_window.end(), page) > 0) {
        delta.add_added(PrefixWindowPage(link.high, 40));
      }
    }
    EXPECT_TRUE(pages_.Apply(worker_, delta));
    const std::vector<ReadyWorkers::Held> held = pages_.Find(prompt_, "");
    return held.empty() ? 0 : held[0].tokens;
  }
  bool is_prefill() const { return GetParam() == internal::v1::WORKER_ROLE_PREFILL; }

  const std::vector<int32_t> prompt_ = std::vector<int32_t>(256, 5);
  Worker worker_;
  WorkerPages pages_;
};

TEST_P(WorkerPagesWindowTest, CountsWhatServesInAllLayers) {
  std::vector<size_t> all;
  for (size_t page = 0; page < 16; ++page) all.push_back(page);
  EXPECT_EQ(Served(16, all), 224u) << "never the last token";
  EXPECT_EQ(Served(11, all), 160u) << "whole blocks";
  // The hand-off carries the tokens from 144 on in the layers with a window.
  EXPECT_EQ(Served(16, {8, 9, 10, 11, 12, 13}), 224u);
  EXPECT_EQ(Served(16, {8, 9, 10, 11, 12}), 192u);
  // A prefill worker computes behind its prefix, and sees the window before that.
  EXPECT_EQ(Served(16, {9, 10, 11, 12, 13}), is_prefill() ? 0u : 128u);
  EXPECT_EQ(Served(16, {2, 3, 4, 5}), is_prefill() ? 96u : 128u);
  EXPECT_EQ(Served(16, {0, 1}), is_prefill() ? 32u : 128u);
  EXPECT_EQ(Served(16, {}), is_prefill() ? 0u : 128u);
  EXPECT_EQ(Served(0, all), 0u);
}

INSTANTIATE_TEST_SUITE_P(Roles, WorkerPagesWindowTest,
                         testing::Values(internal::v1::WORKER_ROLE_PREFILL,
                                         internal::v1::WORKER_ROLE_DECODE),
                         [](const testing::TestParamInfo<internal::v1::WorkerRole>& role) {
                           return role.param == internal::v1::WORKER_ROLE_PREFILL ? "Prefill"
                                                                                  : "Decode";
                         });

}  // namespace
}  // namespace baton
