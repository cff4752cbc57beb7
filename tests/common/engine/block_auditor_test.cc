// An audit finds every byte of received KV that is not what this engine computes, and nothing else,
// whatever runs beside it.
#include "common/engine/block_auditor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "tests/common/engine/audited_pair.h"
#include "tests/common/grammar/tiny_grammars.h"

namespace baton {
namespace {

using Outcome = AuditResult::Outcome;

TEST(BlockAuditor, HonestKvMatchesAtEveryBlockWhateverRunsBesideIt) {
  std::mt19937 random(1);
  for (const AuditVariant& variant :
       {AuditVariant{KvType::kF32, 16, 128, 0}, AuditVariant{KvType::kF16, 48, 64, 1},
        AuditVariant{KvType::kInt8, 32, 512, 0}, AuditVariant{KvType::kF16, 144, 64, 0}}) {
    AuditedPair pair(variant);
    const int tokens = 150 + static_cast<int>(random() % 60);
    for (int block = 0; block * variant.block_size < tokens; ++block) {
      // Others prefill and decode meanwhile, as long as the audit lasts.
      SequenceRequest other = RandomRequest(random, 1 + static_cast<int>(random() % 200));
      other.sampling.max_tokens = 6;
      pair.decode().Submit(other);
      SequenceRequest request = RandomRequest(random, tokens);
      request.choices = 1 + block % 3;
      const SequenceId id = pair.Receive(std::move(request), "p");
      EXPECT_EQ(pair.Audit(id, block).outcome, Outcome::kMatch) << "block " << block;
    }
    pair.decode().Run();
    pair.decode().ExpectNothingHeld();
  }
}

TEST(BlockAuditor, HonestFirstTokensMatchWhereAGrammarHoldsThem) {
  std::mt19937 random(9);
  AuditedPair pair;
  for (int i = 0; i < 6; ++i) {
    SequenceRequest request = RandomRequest(random, 40);
    request.grammar = TinyRegex("[0-9]{9}");
    request.choices = 1 + i % 3;
    const SequenceId id = pair.Receive(std::move(request), "p");
    EXPECT_EQ(pair.Audit(id, /*block=*/2).outcome, Outcome::kMatch);
  }
}

TEST(BlockAuditor, AFormThatFailsHereSaysNothingAboutWhoMadeTheFirstToken) {
  std::mt19937 random(10);
  AuditedPair pair;
  SequenceRequest request = RandomRequest(random, 40);
  request.grammar = TinyGrammar(CostlyGrammar());
  ASSERT_TRUE(request.grammar->Replay(TinyTokens(std::string(30, 'a'))).ok());
  const SequenceId id =
      pair.Receive(std::move(request), "p", GrammarBudget{.call = absl::ZeroDuration()});
  EXPECT_EQ(pair.Audit(id, /*block=*/2).outcome, Outcome::kMatch);
  pair.decode().Run();
  EXPECT_TRUE(absl::IsInvalidArgument(pair.log(id).failure)) << pair.log(id).failure;
  pair.decode().ExpectNothingHeld();
}

TEST(BlockAuditor, AnyChangedBitOfItsBlockIsFoundAndNoOther) {
  std::mt19937 random(2);
  for (const AuditVariant& variant :
       {AuditVariant{KvType::kF16, 16, 128, 0}, AuditVariant{KvType::kInt8, 48, 128, 0}}) {
    AuditedPair pair(variant);
    const size_t row = pair.layout().row_bytes() + pair.layout().scale_bytes();
    for (int i = 0; i < 60; ++i) {
      const int tokens = 20 + static_cast<int>(random() % 120);
      const SequenceId id = pair.Receive(RandomRequest(random, tokens), "p");
      const int token = static_cast<int>(random() % static_cast<uint32_t>(tokens));
      const int layer = static_cast<int>(random() % static_cast<uint32_t>(pair.layout().layers));
      pair.Flip(id, layer, random() % 2 == 0 ? KvLayout::kKeys : KvLayout::kValues, token,
                random() % row);
      const int changed = token / variant.block_size;
      const int block = static_cast<int>(random() % static_cast<uint32_t>(changed + 1));
      const AuditResult result = pair.Audit(id, block);
      if (block < changed) {
        EXPECT_EQ(result.outcome, Outcome::kMatch);
        continue;
      }
      EXPECT_EQ(result.outcome, Outcome::kMismatch) << "token " << token << " layer " << layer;
      EXPECT_EQ(result.block, block);
      EXPECT_EQ(result.layer, layer);
      EXPECT_EQ(result.page, token / kKvPageTokens);
      EXPECT_EQ(result.source, "p");
    }
  }
}

TEST(BlockAuditor, WhatIsWrongBeforeItsBlockIsFoundBehindItToo) {
  std::mt19937 random(3);
  AuditedPair pair;
  const SequenceId id = pair.Receive(RandomRequest(random, 100), "p");
  pair.Flip(id, 0, KvLayout::kValues, 5, 3);
  EXPECT_EQ(pair.Audit(id, 6).outcome, Outcome::kMismatch);
}

TEST(BlockAuditor, AWrongFirstTokenOfAnyChoiceIsFoundAtThePromptsEnd) {
  std::mt19937 random(4);
  AuditedPair pair;
  for (int wrong = 0; wrong < 3; ++wrong) {
    SequenceRequest request = RandomRequest(random, 40);
    request.choices = 3;
    const SequenceId id = pair.Receive(std::move(request), "p");
    OutputToken& token = pair.first_tokens()[static_cast<size_t>(wrong)];
    token.token_id = (token.token_id + 1) % 256;
    const AuditResult result = pair.Audit(id, 2);
    EXPECT_EQ(result.outcome, Outcome::kMismatch);
    EXPECT_TRUE(result.wrong_token);
    EXPECT_EQ(result.source, "p");
  }
}

// Two sources in one prompt: who continues a wrong beginning is not to blame.
TEST(BlockAuditor, TheFirstWrongBlockTellsWhoIsToBlame) {
  std::mt19937 random(5);
  for (const bool first_forges : {true, false}) {
    AuditedPair pair;
    SequenceRequest request = RandomRequest(random, 64);
    const SequenceId first = pair.Receive(request, "first");
    if (first_forges) pair.Flip(first, 0, KvLayout::kKeys, 20, 3);
    EXPECT_EQ(pair.Audit(first, 0).outcome, Outcome::kMatch);
    pair.decode().Run();

    Append(request, RandomTokens(random, 50));
    const SequenceId second = pair.Receive(request, "second");
    ASSERT_EQ(pair.log(second).start_token, 64);
    if (!first_forges) pair.Flip(second, 0, KvLayout::kKeys, 70, 3);
    const AuditResult result = pair.Audit(second, 6);
    EXPECT_EQ(result.outcome, Outcome::kMismatch);
    EXPECT_EQ(result.source, first_forges ? "first" : "second");
    EXPECT_EQ(result.block, first_forges ? 1 : 4);
  }
}

TEST(BlockAuditor, OneIsUnderWayAtATimeAndTheOthersAreSkipped) {
  std::mt19937 random(6);
  AuditedPair pair;
  const SequenceId first = pair.Receive(RandomRequest(random, 100), "p");
  const std::vector<OutputToken> tokens_of_first = pair.first_tokens();
  const SequenceId second = pair.Receive(RandomRequest(random, 100), "p");
  std::vector<Outcome> outcomes;
  const auto note = [&](const AuditResult& result) { outcomes.push_back(result.outcome); };
  pair.decode().engine().Commit(first, tokens_of_first, AuditOrder{3, note});
  pair.decode().engine().Commit(second, pair.first_tokens(), AuditOrder{3, note});
  pair.decode().Run();
  EXPECT_THAT(outcomes, testing::ElementsAre(Outcome::kSkipped, Outcome::kMatch));
}

TEST(BlockAuditor, WithoutAFreeBlockItIsSkipped) {
  std::mt19937 random(7);
  AuditedPair pair({.block_size = 512});  // four blocks: for each of two, one and head-room
  const SequenceId one = pair.Receive(RandomRequest(random, 20), "p");
  const SequenceId other = pair.Receive(RandomRequest(random, 20), "p");
  EXPECT_EQ(pair.Audit(other, 0).outcome, Outcome::kSkipped);
  pair.decode().engine().Release(one);
  pair.decode().Run();
  EXPECT_TRUE(pair.log(other).finished);
  pair.decode().ExpectNothingHeld();
}

TEST(BlockAuditor, OfALayerWithAWindowTheLastBlockIsCompared) {
  std::mt19937 random(9);
  for (const int layer : {-1, 0, 1}) {
    AuditedPair pair(kWindowsVariant);
    const SequenceId id = pair.Receive(RandomRequest(random, 200), "pusher");
    if (layer >= 0) pair.Flip(id, layer, KvLayout::kKeys, 195, 3);
    const AuditResult result = pair.Audit(id, 199 / kWindowsVariant.block_size);
    EXPECT_EQ(result.outcome, layer < 0 ? Outcome::kMatch : Outcome::kMismatch);
    if (layer >= 0) {
      EXPECT_EQ(result.layer, layer);
    }
  }
}

TEST(BlockAuditor, ABlockOfWhichItDidNotReceiveAllThatItSeesIsSkipped) {
  std::mt19937 random(10);
  AuditedPair pair(kWindowsVariant);
  const SequenceId id = pair.Receive(RandomRequest(random, 200), "pusher");
  EXPECT_EQ(pair.Audit(id, 0).outcome, Outcome::kSkipped);
}

// The sequence has given back all that the forger has written of what it rests on.
TEST(Distrust, EndsWhoRestedOnItsKvBehindAWindow) {
  std::mt19937 random(11);
  AuditedPair pair(kWindowsVariant);
  Engine& engine = pair.decode().engine();
  SequenceRequest request = RandomRequest(random, 192);
  request.sampling.max_tokens = 400;
  const SequenceId honest = pair.Receive(request, "honest");
  const std::vector<OutputToken> first_tokens = pair.first_tokens();
  const SequenceId forged = pair.Receive(request, "forger");
  engine.Commit(honest, first_tokens);
  for (int step = 0; step < 100; ++step) engine.Step();
  // The honest worker's blocks of all tokens are in use; those of the window are the forger's now.
  engine.Commit(forged, pair.first_tokens());
  for (int step = 0; step < 100; ++step) engine.Step();
  engine.Release(forged);
  engine.Step();
  SequenceRequest more = request;
  for (int32_t token : RandomTokens(random, 20)) more.token_ids.push_back(token);
  more.prompt_length = static_cast<int>(more.token_ids.size());
  const SequenceId rested = pair.decode().Submit(more);
  for (int step = 0; step < 100; ++step) engine.Step();
  ASSERT_EQ(pair.log(rested).failure, absl::OkStatus());
  ASSERT_FALSE(pair.log(rested).finished);

  engine.Distrust("forger");
  engine.Step();
  EXPECT_TRUE(absl::IsDataLoss(pair.log(rested).failure));
  EXPECT_EQ(pair.log(honest).failure, absl::OkStatus());
}

TEST(Distrust, EndsWhoRestsOnItsKvAndNobodyFindsItAnyMore) {
  std::mt19937 random(8);
  AuditedPair pair;
  Engine& engine = pair.decode().engine();
  SequenceRequest request = RandomRequest(random, 64);
  request.sampling.max_tokens = 100;
  const auto receive = [&](const SequenceRequest& received, const char* source) {
    const SequenceId id = pair.Receive(received, source);
    engine.Commit(id, pair.first_tokens());
    engine.Step();
    return id;
  };
  const SequenceId forged = receive(request, "forger");
  SequenceRequest longer = request;
  for (int32_t token : RandomTokens(random, 50)) longer.token_ids.push_back(token);
  longer.prompt_length = static_cast<int>(longer.token_ids.size());
  const SequenceId continued = receive(longer, "honest");
  ASSERT_EQ(pair.log(continued).start_token, 64);
  const SequenceId apart = receive(RandomRequest(random, 64), "honest");
  SequenceRequest arriving = RandomRequest(random, 64);
  const SequenceId half = pair.Receive(arriving, "forger");

  engine.Distrust("forger");
  engine.Step();
  EXPECT_TRUE(absl::IsDataLoss(pair.log(forged).failure));
  EXPECT_TRUE(absl::IsDataLoss(pair.log(continued).failure));
  EXPECT_TRUE(absl::IsDataLoss(pair.log(half).failure));
  engine.Release(half);
  pair.decode().Run();
  EXPECT_TRUE(pair.log(apart).finished);
  EXPECT_TRUE(pair.log(apart).failure.ok());
  pair.decode().ExpectNothingHeld();
  EXPECT_EQ(engine.Stats().cached_blocks, 0);
  const SequenceId again = pair.Receive(request, "honest");
  EXPECT_EQ(pair.log(again).start_token, 0);
}

TEST(Distrust, WhatABrokenPushOfItHadBroughtIsNotRetained) {
  std::mt19937 random(12);
  AuditedPair pair;
  Engine& engine = pair.decode().engine();
  SequenceRequest request = RandomRequest(random, 100);
  request.resume_key = "attempts at one request";
  for (const bool distrusted : {false, true}) {
    const SequenceId broken = pair.Receive(request, "forger");
    if (distrusted) engine.Distrust("forger");
    engine.Step();
    engine.Release(broken, 96);
    engine.Step();
    const SequenceId next = pair.Receive(request, "honest");
    EXPECT_EQ(pair.log(next).start_token, distrusted ? 0 : 96);
    engine.Release(next);
    engine.Step();
  }
}

}  // namespace
}  // namespace baton
