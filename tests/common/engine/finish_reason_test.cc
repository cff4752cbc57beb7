#include "common/engine/finish_reason.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(FinishReason, StopGoesBeforeLengthAndHoldsFromMinTokensOn) {
  bool by_grammar = false;
  const auto reason = [&](int32_t token_id, int output_index, const SamplingParams& params) {
    return FinishReasonOf({.output_index = output_index, .token_id = token_id}, params,
                          /*end_of_generation_ids=*/{3, 17}, by_grammar,
                          /*total_tokens=*/10 + output_index + 1, /*max_model_len=*/100);
  };
  const SamplingParams params{.max_tokens = 8, .stop_token_ids = {50}};
  EXPECT_EQ(reason(1, 0, params), FinishReason::kNone);
  EXPECT_EQ(reason(3, 0, params), FinishReason::kStop);
  EXPECT_EQ(reason(50, 0, params), FinishReason::kStop);
  EXPECT_EQ(reason(1, 7, params), FinishReason::kLength);
  EXPECT_EQ(reason(17, 7, params), FinishReason::kStop);
  SamplingParams ignoring = params;
  ignoring.ignore_eos = true;
  EXPECT_EQ(reason(3, 0, ignoring), FinishReason::kNone);
  EXPECT_EQ(reason(50, 0, ignoring), FinishReason::kStop);
  SamplingParams later = params;
  later.min_tokens = 3;
  EXPECT_EQ(reason(3, 2, later), FinishReason::kNone);
  EXPECT_EQ(reason(3, 3, later), FinishReason::kStop);
  EXPECT_EQ(reason(1, 89, {.max_tokens = 1000}), FinishReason::kLength);
  // A grammar allows an end only where its text may end.
  by_grammar = true;
  EXPECT_EQ(reason(3, 0, ignoring), FinishReason::kStop);
  EXPECT_EQ(reason(3, 2, later), FinishReason::kStop);
  EXPECT_EQ(reason(50, 2, later), FinishReason::kNone);
  EXPECT_EQ(reason(50, 3, later), FinishReason::kStop);
}

}  // namespace
}  // namespace baton
