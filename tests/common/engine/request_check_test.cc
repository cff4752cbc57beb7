#include "common/engine/request_check.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/max_choices.h"

namespace baton {
namespace {

constexpr EngineLimits kLimits = {
    .vocab_size = 100, .max_model_len = 64, .block_size = 16, .total_blocks = 4};

SequenceRequest RequestOf(int tokens) {
  SequenceRequest request;
  request.token_ids.resize(static_cast<size_t>(tokens));
  std::iota(request.token_ids.begin(), request.token_ids.end(), 0);
  request.prompt_length = tokens;
  request.sampling.max_tokens = 8;
  return request;
}

TEST(IsWellFormed, NeedsAPromptThatLeavesRoomForATokenInTheContext) {
  EXPECT_TRUE(IsWellFormed(RequestOf(1), kLimits));
  EXPECT_TRUE(IsWellFormed(RequestOf(63), kLimits));
  EXPECT_FALSE(IsWellFormed(RequestOf(64), kLimits));
  EXPECT_FALSE(IsWellFormed(RequestOf(0), kLimits));
}

TEST(IsWellFormed, NeedsThePromptAmongTheTokensAndAnOutputThatIsNotAtItsEnd) {
  SequenceRequest request = RequestOf(10);
  request.prompt_length = 11;
  EXPECT_FALSE(IsWellFormed(request, kLimits));
  request.prompt_length = 0;
  EXPECT_FALSE(IsWellFormed(request, kLimits));
  request.prompt_length = 3;  // 7 outputs of 8
  EXPECT_TRUE(IsWellFormed(request, kLimits));
  request.prompt_length = 2;  // all 8
  EXPECT_FALSE(IsWellFormed(request, kLimits));
}

TEST(IsWellFormed, NeedsChoicesWithinTheirBound) {
  SequenceRequest request = RequestOf(4);
  request.choices = static_cast<int>(kMaxChoices);
  EXPECT_TRUE(IsWellFormed(request, kLimits));
  request.choice = 1;
  EXPECT_FALSE(IsWellFormed(request, kLimits));
  request.choices = 0;
  EXPECT_FALSE(IsWellFormed(request, kLimits));
  request.choices = 1;
  request.choice = -1;
  EXPECT_FALSE(IsWellFormed(request, kLimits));
}

TEST(IsWellFormed, NeedsEveryIdInTheVocabularyAndStopsAscending) {
  for (const int32_t id : {-1, 100}) {
    SequenceRequest request = RequestOf(4);
    request.token_ids[3] = id;
    EXPECT_FALSE(IsWellFormed(request, kLimits));
    request = RequestOf(4);
    request.sampling.stop_token_ids = {id};
    EXPECT_FALSE(IsWellFormed(request, kLimits));
    request = RequestOf(4);
    request.sampling.logit_bias = {{id, 1.0f}};
    EXPECT_FALSE(IsWellFormed(request, kLimits));
  }
  SequenceRequest request = RequestOf(4);
  request.sampling.stop_token_ids = {0, 99};
  request.sampling.logit_bias = {{0, 1.0f}, {99, 1.0f}};
  EXPECT_TRUE(IsWellFormed(request, kLimits));
  request.sampling.stop_token_ids = {99, 0};
  EXPECT_FALSE(IsWellFormed(request, kLimits));
}

TEST(FindMisfit, CountsTheBlocksOfAllTokensButTheLast) {
  SequenceRequest request = RequestOf(30);
  request.sampling.max_tokens = 3;  // 32 tokens are stored
  EngineLimits limits = kLimits;
  limits.total_blocks = 2;
  EXPECT_FALSE(FindMisfit(request, limits).has_value());
  request.sampling.max_tokens = 4;
  const auto misfit = FindMisfit(request, limits);
  ASSERT_TRUE(misfit.has_value());
  EXPECT_EQ(misfit->field, "token_ids");
  EXPECT_EQ(misfit->description,
            "with max_tokens they need 3 KV blocks and there are 2; ask for less, or raise "
            "--num-kv-blocks");
}

TEST(FindMisfit, TheContextBoundsWhatAnOutputCanNeed) {
  SequenceRequest request = RequestOf(30);
  request.sampling.max_tokens = 1'000'000;
  EXPECT_FALSE(FindMisfit(request, kLimits).has_value());
}

TEST(FindMisfit, APrefillNeedsRoomForItsPromptAlone) {
  SequenceRequest request = RequestOf(32);
  request.sampling.max_tokens = 30;
  EngineLimits limits = kLimits;
  limits.total_blocks = 2;
  EXPECT_TRUE(FindMisfit(request, limits).has_value());
  request.mode = SequenceRequest::Mode::kPrefillOnly;
  EXPECT_FALSE(FindMisfit(request, limits).has_value());
}

// Choices share the full blocks of their prompt; each has a last one of its own.
TEST(FindMisfit, ChoicesNeedABlockEachUnlessThePromptEndsWithOne) {
  SequenceRequest request = RequestOf(17);
  request.sampling.max_tokens = 2;
  request.choices = 3;
  EXPECT_FALSE(FindMisfit(request, kLimits).has_value());
  request.choices = 4;
  const auto misfit = FindMisfit(request, kLimits);
  ASSERT_TRUE(misfit.has_value());
  EXPECT_EQ(misfit->field, "sampling.n");
  request = RequestOf(16);
  request.sampling.max_tokens = 2;
  request.choices = 4;
  EXPECT_FALSE(FindMisfit(request, kLimits).has_value());
}

}  // namespace
}  // namespace baton
