#include "router/openai/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "common/rpc/limits.h"
#include "tests/router/openai/request_reading.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

// `more` is JSON without its braces, or empty.
std::string CompletionBody(const std::string& more) {
  return R"({"prompt": "Hi")" + (more.empty() ? "" : ", " + more) + "}";
}
v1::GenerateRequest Completion(const std::string& more) {
  return ReadOne(ReadCompletionRequest, CompletionBody(more));
}
std::string WrongCompletion(const std::string& more) {
  return Wrong(ReadCompletionRequest, CompletionBody(more));
}
std::vector<v1::GenerateRequest> Prompts(const std::string& prompt) {
  auto request = ReadCompletionRequest(R"({"prompt": )" + prompt + "}", ContextOf(""));
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? std::move(request->prompts) : std::vector<v1::GenerateRequest>();
}
std::string WrongPrompt(const std::string& prompt) {
  return Wrong(ReadCompletionRequest, R"({"prompt": )" + prompt + "}");
}

TEST(CompletionRequest, TheLeastHasSixteenTokens) {
  const v1::GenerateRequest request = Completion("");
  EXPECT_EQ(request.prompt(), "Hi");
  EXPECT_TRUE(request.parse_special());
  EXPECT_EQ(request.sampling_params().max_tokens(), 16u);
  EXPECT_EQ(Completion(R"("max_tokens": null)").sampling_params().max_tokens(), 16u);
  EXPECT_EQ(Completion(R"("max_tokens": 0)").sampling_params().max_tokens(), 0u);
  EXPECT_TRUE(Completion(R"("max_tokens": 0)").sampling_params().has_max_tokens());
}

TEST(CompletionRequest, PromptsAreTextsOrTokenIdsAloneOrInAList) {
  EXPECT_EQ(Prompts(R"("a")")[0].prompt(), "a");
  EXPECT_EQ(Prompts(R"(["a"])").size(), 1u);
  EXPECT_EQ(Prompts(R"(["a", "b"])")[1].prompt(), "b");
  EXPECT_THAT(Prompts("[1, 2]")[0].prompt_token_ids().ids(), ElementsAre(1, 2));
  const auto lists = Prompts("[[1, 2], [3]]");
  ASSERT_EQ(lists.size(), 2u);
  EXPECT_THAT(lists[1].prompt_token_ids().ids(), ElementsAre(3));
}

TEST(CompletionRequest, WhatIsNoPromptIsNamed) {
  EXPECT_EQ(Wrong(ReadCompletionRequest, "{}"), "prompt");
  EXPECT_EQ(WrongPrompt("3"), "prompt");
  EXPECT_EQ(WrongPrompt("[1, \"a\"]"), "prompt");
  EXPECT_EQ(WrongPrompt("[\"a\", 1]"), "prompt[1]");
  EXPECT_EQ(WrongPrompt("[[1, -1]]"), "prompt[0]");
  EXPECT_EQ(WrongPrompt("[1.5]"), "prompt");
  EXPECT_EQ(WrongPrompt("[1099511627776]"), "prompt");
}

TEST(CompletionRequest, TheNumberOfPromptsIsBounded) {
  const auto list = [](size_t prompts) {
    std::string json = "[";
    for (size_t i = 0; i < prompts; ++i) absl::StrAppend(&json, i > 0 ? "," : "", "\"a\"");
    return json + "]";
  };
  EXPECT_EQ(Prompts(list(kMaxPrompts)).size(), kMaxPrompts);
  EXPECT_EQ(WrongPrompt(list(kMaxPrompts + 1)), "prompt");
}

TEST(CompletionRequest, WhatEachPromptsRequestRepeatsIsBounded) {
  const auto with_grammar = [](size_t bytes) {
    Json body = {{"prompt", Json::array()}, {"grammar", std::string(bytes, 'a')}};
    for (size_t i = 0; i < kMaxPrompts; ++i) body["prompt"].push_back("a");
    return body.dump();
  };
  constexpr size_t kEach = kMaxMessageBytes / kMaxPrompts;
  const auto request = ReadCompletionRequest(with_grammar(kEach - 100), ContextOf(""));
  EXPECT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(Wrong(ReadCompletionRequest, with_grammar(kEach)), "prompt");
}

TEST(CompletionRequest, AnEchoWithLogProbabilitiesHasThoseOfThePrompt) {
  const v1::GenerateRequest request = Completion(R"("echo": true, "logprobs": 2)");
  EXPECT_TRUE(request.echo());
  EXPECT_EQ(request.sampling_params().logprobs(), 2);
  EXPECT_EQ(request.sampling_params().prompt_logprobs(), 2);
  EXPECT_FALSE(Completion(R"("logprobs": 2)").sampling_params().has_prompt_logprobs());
  EXPECT_FALSE(Completion(R"("echo": true)").sampling_params().has_prompt_logprobs());
  EXPECT_EQ(WrongCompletion(R"("logprobs": 21)"), "logprobs");
  EXPECT_EQ(WrongCompletion(R"("logprobs": true)"), "logprobs");
}

TEST(CompletionRequest, TheBestOfAllIsHarmless) {
  EXPECT_EQ(Completion(R"("best_of": 3, "n": 3)").sampling_params().n(), 3u);
  EXPECT_EQ(WrongCompletion(R"("best_of": 3, "n": 2)"), "best_of");
  EXPECT_EQ(WrongCompletion(R"("best_of": 3, "n": 3, "suffix": "x")"), "suffix");
}

}  // namespace
}  // namespace baton
