#include "common/engine/draft_model.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/schedule.h"
#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/engine_parts.h"

namespace baton {
namespace {

using DraftOrder = DraftModel::Order;

class DraftProposals : public testing::Test {
 protected:
  // All files have the same vocabulary.
  std::unique_ptr<DraftModel> Load(int blocks, const char* file = "tiny-llama-f32.gguf") {
    auto model =
        Transformer::Load(PartOrDie(GgufFile::Open(std::string(BATON_TEST_DATA "/tiny/") + file)),
                          *backend_, [](double) {});
    return PartOrDie(DraftModel::Create(
        PartOrDie(std::move(model)), *backend_,
        {.block_size = 16, .num_blocks = blocks, .kv_dtype = KvType::kF32, .most_sequences = 8}));
  }
  // What the model proposes once it has caught up.
  static std::vector<int32_t> Proposed(DraftModel& draft, DraftKv& kv,
                                       const std::vector<int32_t>& tokens, int most) {
    for (int call = 0; call < 10; ++call) {
      DraftOrder order = {.kv = &kv, .tokens = tokens, .most = most};
      draft.Propose({&order, 1}, kChunkTokens);
      if (!order.proposed.empty()) return order.proposed;
    }
    return {};
  }

  std::mt19937 random_{1};
  const std::unique_ptr<Backend> backend_ = PartOrDie(MakeBackend({.device = "cpu", .threads = 1}));
};

TEST_F(DraftProposals, AreWhatItsModelWouldSay) {
  const auto draft = Load(32);
  EngineHarness engine(EngineHarness::SmallOptions());
  for (const int length : {1, 16, 40, 200}) {
    const std::vector<int32_t> tokens = RandomTokens(random_, length);
    const EventLog said = engine.RunAlone(LocalRequest(tokens, Greedy(16)));
    DraftKv kv;
    EXPECT_EQ(Proposed(*draft, kv, tokens, 16), said.token_ids());
  }
}

TEST_F(DraftProposals, ComeWhenALongPromptIsCaughtUpInChunks) {
  const auto draft = Load(32);
  const std::vector<int32_t> tokens = RandomTokens(random_, 200);
  DraftKv kv;
  const auto rows = [&](int most, int spare_rows = kChunkTokens) {
    DraftOrder order = {.kv = &kv, .tokens = tokens, .most = most};
    const int computed = draft->Propose({&order, 1}, spare_rows);
    EXPECT_EQ(static_cast<int>(order.proposed.size()), kv.tokens.size() < 200 ? 0 : most);
    return computed;
  };
  EXPECT_EQ(rows(0), kChunkTokens);
  EXPECT_EQ(rows(4), kChunkTokens + 1);
  EXPECT_EQ(rows(0, 5), 5) << "no more rows are spare";
  EXPECT_EQ(rows(0, -1), 0);
  EXPECT_EQ(rows(4, 0), 1) << "beside one for the order";
  EXPECT_EQ(rows(0, 1000), kChunkTokens);
  EXPECT_EQ(rows(0), 200 - 3 * kChunkTokens - 7);
  EXPECT_EQ(rows(0), 0) << "nothing is missing";
  EXPECT_EQ(rows(4), 4) << "the last token is computed anew";
}

TEST_F(DraftProposals, GoOnFromTheTokensThatCameInsteadOfThoseProposed) {
  const auto draft = Load(32);
  std::vector<int32_t> tokens = RandomTokens(random_, 30);
  DraftKv kv;
  for (int turn = 0; turn < 20; ++turn) {
    const std::vector<int32_t> proposed = Proposed(*draft, kv, tokens, 1 + turn % 6);
    const auto known = static_cast<std::ptrdiff_t>(tokens.size());
    EXPECT_EQ(std::vector<int32_t>(kv.tokens.begin(), kv.tokens.begin() + known), tokens);
    DraftKv fresh;
    EXPECT_EQ(proposed, Proposed(*draft, fresh, tokens, 1 + turn % 6)) << "turn " << turn;
    const auto kept = static_cast<std::ptrdiff_t>(random_() % (proposed.size() + 1));
    tokens.insert(tokens.end(), proposed.begin(), proposed.begin() + kept);
    const std::vector<int32_t> others = RandomTokens(random_, turn % 4);
    tokens.insert(tokens.end(), others.begin(), others.end());
  }
}

TEST_F(DraftProposals, OfOneSequenceDoNotDependOnTheOthers) {
  const auto draft = Load(64, "tiny-mha-untied.gguf");
  std::vector<std::vector<int32_t>> tokens;
  for (const int length : {20, 1, 33, 9}) tokens.push_back(RandomTokens(random_, length));
  std::vector<DraftKv> kvs(tokens.size());
  std::vector<DraftOrder> orders;
  for (size_t i = 0; i < tokens.size(); ++i) {
    orders.push_back({.kv = &kvs[i], .tokens = tokens[i], .most = static_cast<int>(i) * 3});
  }
  draft->Propose(absl::MakeSpan(orders), kChunkTokens);
  EXPECT_TRUE(orders[0].proposed.empty()) << "it only catches up";
  EXPECT_EQ(kvs[0].tokens, tokens[0]);
  for (size_t i = 1; i < tokens.size(); ++i) {
    DraftKv alone;
    EXPECT_EQ(orders[i].proposed, Proposed(*draft, alone, tokens[i], static_cast<int>(i) * 3));
  }
}

TEST_F(DraftProposals, AreNoneWhereTheCacheIsFullUntilAnotherSequenceEnds) {
  const auto draft = Load(3);
  const std::vector<int32_t> two_blocks = RandomTokens(random_, 20);
  DraftKv first;
  DraftKv second;
  EXPECT_EQ(Proposed(*draft, first, two_blocks, 4).size(), 4u);
  EXPECT_EQ(draft->used_blocks(), 2);
  EXPECT_TRUE(Proposed(*draft, second, two_blocks, 4).empty());
  EXPECT_EQ(Proposed(*draft, first, two_blocks, 16).size(), 13u) << "32 tokens have room";
  first = {};
  EXPECT_EQ(draft->used_blocks(), 1);
  EXPECT_EQ(Proposed(*draft, second, two_blocks, 4).size(), 4u);
  second = {};
  EXPECT_EQ(draft->used_blocks(), 0);
}

TEST_F(DraftProposals, EndWithTheModelsContext) {
  const auto draft = Load(80);
  const std::vector<int32_t> nearly_512 = RandomTokens(random_, 509);
  DraftKv kv;
  EXPECT_EQ(Proposed(*draft, kv, nearly_512, 16).size(), 4u);
  const std::vector<int32_t> longer = RandomTokens(random_, 513);
  DraftKv other;
  EXPECT_TRUE(Proposed(*draft, other, longer, 16).empty());
}

}  // namespace
}  // namespace baton
