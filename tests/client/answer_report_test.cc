#include "client/answer_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

Answer MakeAnswer() {
  Answer answer;
  answer.text = "Grüße \"x\"\n";
  v1::GenerateComplete& complete = answer.complete;
  complete.set_finish_reason(v1::FINISH_REASON_LENGTH);
  complete.add_token_ids(5);
  complete.add_token_ids(6);
  complete.mutable_usage()->set_prompt_tokens(100);
  complete.mutable_usage()->set_cached_tokens(20);
  complete.mutable_usage()->set_completion_tokens(11);
  v1::RequestTimings& timings = *complete.mutable_timings();
  timings.mutable_prefill()->set_nanos(400'000'000);
  timings.mutable_decode()->set_seconds(2);
  timings.set_kv_transfer_messages(3);
  timings.set_kv_transfer_bytes(2'500'000);
  timings.set_prefill_worker("p:1");
  timings.set_decode_worker("d:2");
  timings.set_attempts(1);
  return answer;
}

TEST(FormatJson, HoldsTextIdsUsageAndTimingsOnOneLine) {
  const std::string text = FormatJson(MakeAnswer());
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["text"], "Grüße \"x\"\n");
  EXPECT_EQ(json["token_ids"], (std::vector<int>{5, 6}));
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["cached_tokens"], 20);
  EXPECT_DOUBLE_EQ(json["timings"]["decode_ms"], 2000);
}

TEST(FormatStats, CountsOnlyComputedPromptTokensAndOnlyDecodedOutput) {
  const std::string stats = FormatStats(MakeAnswer());
  EXPECT_NE(stats.find("80 tokens     200.0 tokens/s  on p:1"), std::string::npos) << stats;
  EXPECT_NE(stats.find("10 tokens       5.0 tokens/s  on d:2"), std::string::npos) << stats;
  EXPECT_NE(stats.find("2.50 MB in 3 messages"), std::string::npos) << stats;
}

TEST(FormatStats, LeavesTheTransferOutWhereThereWasNone) {
  Answer answer = MakeAnswer();
  answer.complete.mutable_timings()->set_kv_transfer_messages(0);
  answer.complete.mutable_timings()->set_local_prefill(true);
  const std::string stats = FormatStats(answer);
  EXPECT_EQ(stats.find("KV transfer"), std::string::npos) << stats;
  EXPECT_EQ(stats.find("on p:1"), std::string::npos) << stats;
}

}  // namespace
}  // namespace baton
