#include "bench/serve/target/openai_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct ReadAnswer {
  LoadRecord record;
  std::string wrong;

  std::vector<std::pair<int64_t, uint32_t>> messages() const {
    std::vector<std::pair<int64_t, uint32_t>> messages;
    for (const TokenMessage& message : record.messages) {
      messages.emplace_back(message.at_ns, message.tokens);
    }
    return messages;
  }
};

// Each piece comes a nanosecond after the one before.
ReadAnswer ReadPieces(const std::vector<std::string>& pieces) {
  ReadAnswer read;
  OpenAiStream stream(read.record);
  int64_t now_ns = 0;
  for (const std::string& piece : pieces) stream.Take(piece, ++now_ns);
  read.wrong = stream.End();
  return read;
}

std::string Event(const std::string& body) { return "data: " + body + "\n\n"; }
std::string Text(const std::string& rest) {
  return Event("{\"choices\": [{\"text\": \"x\"" + rest + "}], \"usage\": null}");
}
const std::string kDone = "data: [DONE]\n\n";

TEST(OpenAiStream, TokenIdsSayHowManyTokensAMessageHas) {
  const ReadAnswer read =
      ReadPieces({Text(", \"token_ids\": [4]"), Text(", \"token_ids\": [4, 5, 6]"),
                  Text(", \"token_ids\": []"), kDone});
  EXPECT_EQ(read.wrong, "");
  EXPECT_EQ(read.record.count, TokensTold::kIds);
  EXPECT_THAT(read.messages(), ElementsAre(Pair(1, 1), Pair(2, 3)));
}

TEST(OpenAiStream, ARunningUsageSaysItToo) {
  const auto with = [](int tokens) {
    return Event(
        "{\"choices\": [{\"delta\": {\"content\": \"\"}}], \"usage\": {\"prompt_tokens\": "
        "9, \"completion_tokens\": " +
        std::to_string(tokens) + "}}");
  };
  const ReadAnswer read = ReadPieces({with(0), with(2), with(2), with(5), kDone});
  EXPECT_EQ(read.record.count, TokensTold::kUsage);
  EXPECT_EQ(read.record.input_tokens, 9u);
  EXPECT_THAT(read.messages(), ElementsAre(Pair(2, 2), Pair(4, 3)));
}

TEST(OpenAiStream, AUsageAtTheEndIsSpreadEvenlyOverTheMessages) {
  const std::string usage = Event("{\"choices\": [], \"usage\": {\"completion_tokens\": 8}}");
  const ReadAnswer read = ReadPieces({Text(""), Text(""), Text(""), usage, kDone});
  EXPECT_EQ(read.record.count, TokensTold::kSpread);
  EXPECT_THAT(read.messages(), ElementsAre(Pair(1, 2), Pair(2, 3), Pair(3, 3)));
  EXPECT_EQ(read.record.output_tokens(), 8u);
  const std::string three = Event("{\"choices\": [], \"usage\": {\"completion_tokens\": 3}}");
  EXPECT_EQ(ReadPieces({Text(""), Text(""), Text(""), three, kDone}).record.count,
            TokensTold::kUsage)
      << "one in each";
}

TEST(OpenAiStream, WithoutAnyUsageEachMessageCountsAsOne) {
  const ReadAnswer read = ReadPieces({Text(""), Text(""), kDone});
  EXPECT_EQ(read.record.count, TokensTold::kMessages);
  EXPECT_EQ(read.record.output_tokens(), 2u);
}

TEST(OpenAiStream, ARoleIsNoTokenAndReasoningIs) {
  const ReadAnswer read = ReadPieces(
      {Event("{\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \"\"}}]}"),
       ": a comment\n\n", Event("{\"choices\": [{\"delta\": {\"reasoning_content\": \"hm\"}}]}"),
       Event("{\"choices\": [{\"delta\": {}, \"finish_reason\": \"length\"}]}"), kDone});
  EXPECT_THAT(read.messages(), ElementsAre(Pair(3, 1)));
}

TEST(OpenAiStream, EventsMayBeCutAnywhereAndComeSeveralAtOnce) {
  const std::string all = Text("") + "data:" + Text("").substr(6) + "\r\n" + kDone;
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    const ReadAnswer read = ReadPieces({all.substr(0, cut), all.substr(cut)});
    EXPECT_EQ(read.wrong, "") << cut;
    EXPECT_EQ(read.record.messages.size(), 2u) << cut;
  }
  EXPECT_THAT(ReadPieces({all}).messages(), ElementsAre(Pair(1, 1), Pair(1, 1)));
}

TEST(OpenAiStream, TimingsOfBatonAndOfLlamaServerAreStages) {
  const ReadAnswer baton =
      ReadPieces({Text(", \"timings\": {\"queue_ms\": 1.5, \"total_ms\": 20, "
                       "\"attempts\": 2, \"local_prefill\": true, \"new\": 1}"),
                  kDone});
  EXPECT_EQ(baton.record.stages_ns[0], 1'500'000);
  EXPECT_EQ(baton.record.stages_ns[kStages - 1], 20'000'000);
  EXPECT_EQ(baton.record.stages_ns[1], std::nullopt);
  EXPECT_EQ(baton.record.attempts, 2u);
  EXPECT_TRUE(baton.record.local_prefill);
  const ReadAnswer llama = ReadPieces(
      {Event("{\"choices\": [], \"timings\": {\"prompt_ms\": 3, \"predicted_ms\": 4}}"), kDone});
  EXPECT_EQ(llama.record.stages_ns[2], 3'000'000);
  EXPECT_EQ(llama.record.stages_ns[6], 4'000'000);
}

TEST(OpenAiStream, SaysWhatIsWrong) {
  EXPECT_THAT(ReadPieces({Text("")}).wrong, HasSubstr("without [DONE]"));
  EXPECT_THAT(ReadPieces({Event("{\"error\": {\"message\": \"worker died\"}}"), kDone}).wrong,
              HasSubstr("worker died"));
  EXPECT_THAT(ReadPieces({Event("{\"choices\": ["), kDone}).wrong, HasSubstr("not a JSON object"));
  for (const char* odd :
       {"{\"choices\": 3}", "{\"choices\": [7]}", "{\"usage\": 3}", "{\"timings\": [1]}",
        "{\"error\": null}", "{\"choices\": [{\"delta\": 1, \"token_ids\": 4, \"text\": {}}]}"}) {
    EXPECT_EQ(ReadPieces({Event(odd), kDone}).wrong, "") << odd;
  }
}

}  // namespace
}  // namespace baton
