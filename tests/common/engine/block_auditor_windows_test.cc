// Where layers have windows a sequence does not receive all that its tokens rest on. Still an audit
// finds who forged, and never blames anybody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "common/engine/block_auditor.h"
#include "tests/common/engine/audited_pair.h"

namespace baton {
namespace {

using Outcome = AuditResult::Outcome;

// Five layers with a window of 16 tokens, each in a group of its own, and one without.
constexpr AuditVariant kManyGroups = {.model = BATON_TEST_DATA "/arch/gemma3-f16.gguf"};

// The first token that a hand-off of the sequence carries in the layer.
int FirstCarried(const KvLayout& layout, int layer, int tokens) {
  return layout.groups.FirstHandedOff(layout.groups.GroupOf(layer), tokens);
}

// The first block that can be computed from what such a hand-off carries.
int FirstAuditable(const KvLayout& layout, int tokens) {
  int block = 0;
  for (int group = 0; group < layout.groups.count(); ++group) {
    const int first = layout.groups.FirstHandedOff(group, tokens);
    while (layout.groups.FirstSeen(group, block * layout.block_size) < first) ++block;
  }
  return block;
}

// The last rows of the beginning are wrong. No block before the first that can be audited can be
// computed from what the sequence received.
TEST(BlockAuditorWindows, WhoContinuesBehindAForgedWindowIsNotToBlame) {
  std::mt19937 random(1);
  for (const AuditVariant& variant : {kWindowsVariant, kManyGroups}) {
    AuditedPair pair(variant);
    SequenceRequest request = RandomRequest(random, 160);
    const SequenceId first = pair.Receive(request, "forger");
    pair.Flip(first, /*layer=*/0, KvLayout::kKeys, 150, 3);
    pair.decode().engine().Commit(first, pair.first_tokens());
    pair.decode().Run();

    Append(request, RandomTokens(random, 68));
    const SequenceId second = pair.Receive(request, "honest");
    ASSERT_EQ(pair.log(second).start_token, 160);
    ASSERT_EQ(FirstAuditable(pair.layout(), 228), 10);
    const AuditResult result = pair.Audit(second, 10);
    EXPECT_EQ(result.outcome, Outcome::kMismatch);
    EXPECT_EQ(result.source, "forger");
    EXPECT_EQ(result.block, 9);
    EXPECT_EQ(result.layer, 0);
    EXPECT_EQ(result.page, 150 / kKvPageTokens);
    pair.decode().Run();
    pair.decode().ExpectNothingHeld();
  }
}

// Wherever one of two pushers forges, in blocks of any size, and whichever block is audited.
TEST(BlockAuditorWindows, WhoeverIsBlamedForged) {
  std::mt19937 random(2);
  const auto draw = [&](int first, int last) {
    return first + static_cast<int>(random() % static_cast<uint32_t>(last - first + 1));
  };
  int found[2] = {0, 0};
  for (int i = 0; i < 60; ++i) {
    AuditVariant variant = i % 2 == 0 ? kWindowsVariant : kManyGroups;
    variant.block_size = 16 * draw(1, i % 2 == 0 ? 4 : 3);
    AuditedPair pair(variant);
    const KvLayout& layout = pair.layout();
    const bool first_forges = i % 3 != 0;
    const int layer = draw(0, layout.layers - 1);
    const auto flip = [&](SequenceId id, int begin, int end) {
      const int token = draw(std::max(begin, FirstCarried(layout, layer, end)), end - 1);
      pair.Flip(id, layer, random() % 2 == 0 ? KvLayout::kKeys : KvLayout::kValues, token, 3);
      return token;
    };
    SequenceRequest request = RandomRequest(random, draw(100, 250));
    const auto beginning = static_cast<int>(request.token_ids.size());
    const SequenceId first = pair.Receive(request, "first");
    // Where the next block sees it.
    const int whole = beginning - beginning % layout.block_size;
    int forged = first_forges ? flip(first, whole - 15, whole) : 0;
    pair.decode().engine().Commit(first, pair.first_tokens());
    pair.decode().Run();

    Append(request, RandomTokens(random, draw(10, first_forges ? 60 : 120)));
    const int tokens = request.prompt_length;
    const SequenceId second = pair.Receive(request, "second");
    const int start = pair.log(second).start_token;
    if (!first_forges) forged = flip(second, start, tokens);
    const int begin = std::max(start / layout.block_size, FirstAuditable(layout, tokens));
    const int last = first_forges ? begin : layout.BlocksFor(tokens) - 1;
    const AuditResult result = pair.Audit(second, draw(begin, last));
    EXPECT_NE(result.outcome, Outcome::kSkipped);
    if (result.outcome == Outcome::kMismatch) {
      EXPECT_EQ(result.source, first_forges ? "first" : "second") << i;
      EXPECT_EQ(result.page, forged / kKvPageTokens);
      EXPECT_EQ(result.layer, layer);
      ++found[first_forges ? 0 : 1];
    }
    pair.decode().Run();
    pair.decode().ExpectNothingHeld();
  }
  EXPECT_GE(found[0], 5);
  EXPECT_GE(found[1], 5);
}

// The prefix cache gave the second one the first one's block of the layer that keeps all tokens,
// and has the blocks of the windows from itself.
TEST(BlockAuditorWindows, OfASpanWhoseGroupsCameFromTwoTheWrongGroupTellsWhoIsToBlame) {
  std::mt19937 random(3);
  AuditedPair pair(kWindowsVariant);
  SequenceRequest request = RandomRequest(random, 192);
  request.sampling.max_tokens = 400;
  const SequenceId honest = pair.Receive(request, "honest");
  pair.decode().engine().Commit(honest, pair.first_tokens());
  for (int step = 0; step < 10; ++step) pair.decode().engine().Step();

  request.token_ids.resize(70);
  request.prompt_length = 70;
  const SequenceId forged = pair.Receive(request, "forger");
  ASSERT_EQ(pair.log(forged).start_token, 0);
  pair.Flip(forged, /*layer=*/0, KvLayout::kKeys, 50, 3);
  const AuditResult result = pair.Audit(forged, 3);
  EXPECT_EQ(result.outcome, Outcome::kMismatch);
  EXPECT_EQ(result.layer, 0);
  EXPECT_EQ(result.block, 3);
  EXPECT_EQ(result.source, "forger");
}

// A block that an honest worker had begun was continued here, behind a forged window that the audited
// sequence did not get.
TEST(BlockAuditorWindows, NobodyIsToBlameForWhatWasComputedHereInAnothersBlock) {
  std::mt19937 random(6);
  AuditedPair pair(kManyGroups);
  SequenceRequest request = RandomRequest(random, 64);
  const SequenceId first = pair.Receive(request, "forger");
  pair.Flip(first, /*layer=*/0, KvLayout::kKeys, 60, 3);
  pair.decode().engine().Commit(first, pair.first_tokens());
  pair.decode().Run();

  Append(request, RandomTokens(random, 8));
  request.sampling.max_tokens = 60;
  const SequenceId second = pair.Receive(request, "honest");
  ASSERT_EQ(pair.log(second).start_token, 64);
  pair.decode().engine().Commit(second, pair.first_tokens());
  pair.decode().Run();

  Append(request, {pair.first_tokens().front().token_id});
  Append(request, pair.log(second).token_ids());
  Append(request, RandomTokens(random, 150 - request.prompt_length));
  const SequenceId third = pair.Receive(request, "honest too");
  ASSERT_EQ(pair.log(third).start_token, 128);
  const AuditResult result = pair.Audit(third, 128 / kManyGroups.block_size);
  EXPECT_EQ(result.outcome, Outcome::kMismatch);
  EXPECT_EQ(result.block, 4);
  EXPECT_EQ(result.source, "");
}

// All blocks that the sequence has are another's by now: only the token is the forger's.
TEST(BlockAuditorWindows, AWrongFirstTokenIsFromWhoCommittedIt) {
  std::mt19937 random(4);
  for (const AuditVariant& variant : {AuditVariant{}, kWindowsVariant}) {
    AuditedPair pair(variant);
    SequenceRequest request = RandomRequest(random, 64);
    request.sampling.max_tokens = 400;
    const SequenceId honest = pair.Receive(request, "honest");
    pair.decode().engine().Commit(honest, pair.first_tokens());
    pair.decode().engine().Step();

    const SequenceId forged = pair.Receive(request, "forger");
    ASSERT_EQ(pair.log(forged).start_token, 48);
    OutputToken& token = pair.first_tokens().front();
    token.token_id = (token.token_id + 1) % 256;
    const AuditResult result = pair.Audit(forged, 3);
    EXPECT_EQ(result.outcome, Outcome::kMismatch);
    EXPECT_TRUE(result.wrong_token);
    EXPECT_EQ(result.source, "forger");
  }
}

// Who is to blame may have to be found by three blocks: two are free.
TEST(BlockAuditorWindows, WithoutTheBlocksToFindOutWhoIsToBlameItIsSkipped) {
  std::mt19937 random(5);
  for (const bool from_one : {true, false}) {
    AuditedPair pair(kWindowsVariant);
    Engine& engine = pair.decode().engine();
    SequenceRequest request = RandomRequest(random, 160);
    const SequenceId first = pair.Receive(request, "one");
    engine.Commit(first, pair.first_tokens());
    pair.decode().Run();
    Append(request, RandomTokens(random, 68));
    const SequenceId second = pair.Receive(request, from_one ? "one" : "other");
    const std::vector<OutputToken> first_tokens = pair.first_tokens();
    // These take two blocks for each span of 16 tokens and two of head-room. Of the longest one the
    // first span has no block of the window.
    if (engine.Stats().free_blocks % 2 != 0) pair.Receive(RandomRequest(random, 100), "filler");
    if (engine.Stats().free_blocks % 4 == 0) pair.Receive(RandomRequest(random, 32), "filler");
    while (engine.Stats().free_blocks > 2) pair.Receive(RandomRequest(random, 16), "filler");
    ASSERT_EQ(engine.Stats().free_blocks, 2);
    pair.first_tokens() = first_tokens;
    EXPECT_EQ(pair.Audit(second, 13).outcome, from_one ? Outcome::kMatch : Outcome::kSkipped);
  }
}

}  // namespace
}  // namespace baton
