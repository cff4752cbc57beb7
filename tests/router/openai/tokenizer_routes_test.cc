#include "router/openai/tokenizer_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

TEST(TokenizerRoutes, ATextIsTokenisedAsAPrompt) {
  const auto call =
      ReadTokenizeRequest(R"({"prompt": "a", "add_special_tokens": false, "model": "m"})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->request.prompt(), "a");
  EXPECT_EQ(call->request.model(), "m");
  EXPECT_FALSE(call->request.add_special_tokens());
  EXPECT_TRUE(call->request.has_add_special_tokens());
  EXPECT_TRUE(call->request.parse_special()) << "an evaluator asks for the id of its EOS by text";
  EXPECT_FALSE(call->return_token_strs);
  EXPECT_FALSE(ReadTokenizeRequest(R"({"prompt": ""})")->request.has_add_special_tokens());
}

TEST(TokenizerRoutes, AChatIsTokenisedAsItsTemplateRendersIt) {
  const auto call = ReadTokenizeRequest(
      R"({"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": false,
          "tools": [{"type": "function", "function": {"name": "f"}}], "return_token_strs": true})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->request.chat().messages(0).content(), "a");
  EXPECT_EQ(call->request.chat().tools(0).name(), "f");
  EXPECT_FALSE(call->request.chat().add_generation_prompt());
  EXPECT_TRUE(call->return_token_strs);
}

TEST(TokenizerRoutes, WhatIsMissingIsAnError) {
  EXPECT_TRUE(absl::IsInvalidArgument(ReadTokenizeRequest("{}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadDetokenizeRequest("{}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadDetokenizeRequest(R"({"tokens": [-1]})").status()));
}

absl::string_view BytesOf(int32_t token) { return token == 1 ? "a\"" : "\xFF"; }

// The text, which does not depend on how much of it is asked for at a time.
std::string TextOf(const TokenizeAnswer& answer) {
  std::string whole = TokenizeText(answer, BytesOf).Next(SIZE_MAX);
  for (const size_t bytes : {1, 10}) {
    TokenizeText text(answer, BytesOf);
    std::string joined;
    while (!text.done()) joined += text.Next(bytes);
    EXPECT_EQ(joined, whole);
    EXPECT_EQ(text.Next(bytes), "");
  }
  return whole;
}

TEST(TokenizerRoutes, TokensAreToldWithTheirBytesOnDemand) {
  EXPECT_EQ(TextOf({.tokens = {1, 2}, .max_model_len = 128}),
            R"({"count":2,"max_model_len":128,"tokens":[1,2],"token_strs":null})");
  EXPECT_EQ(TextOf({.tokens = {1, 2}, .max_model_len = 128, .return_token_strs = true}),
            R"({"count":2,"max_model_len":128,"tokens":[1,2],"token_strs":["a\"","bytes:\\xff"]})");
  EXPECT_EQ(TextOf({.return_token_strs = true}),
            R"({"count":0,"max_model_len":0,"tokens":[],"token_strs":[]})");
}

TEST(TokenizerRoutes, ATextIsTokenisedInTheShapeOfLlamaServerToo) {
  const auto call = ReadTokenizeRequest(R"({"content": "a"})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->request.prompt(), "a");
  EXPECT_TRUE(call->request.has_add_special_tokens());
  EXPECT_FALSE(call->request.add_special_tokens());
  EXPECT_TRUE(call->request.parse_special());
  EXPECT_FALSE(call->with_pieces);
  const auto asked = ReadTokenizeRequest(
      R"({"content": "a", "add_special": true, "parse_special": false, "with_pieces": true})");
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->request.add_special_tokens());
  EXPECT_FALSE(asked->request.parse_special());
  EXPECT_TRUE(asked->with_pieces);
}

TEST(TokenizerRoutes, APieceThatIsNoTextIsAListOfBytes) {
  EXPECT_EQ(TextOf({.tokens = {1, 2}, .with_pieces = true}),
            R"({"tokens":[{"id":1,"piece":"a\""},{"id":2,"piece":[255]}]})");
  EXPECT_EQ(TextOf({.with_pieces = true}), R"({"tokens":[]})");
}

TEST(TokenizerRoutes, TokensBecomeTextWithSpecialOnes) {
  const auto request = ReadDetokenizeRequest(R"({"tokens": [3, 1]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->token_ids(), ElementsAre(3, 1));
  EXPECT_FALSE(request->skip_special_tokens());
  EXPECT_TRUE(request->has_skip_special_tokens());
  EXPECT_EQ(DetokenizeBody("a\"b"), R"({"prompt":"a\"b","content":"a\"b"})");
}

TEST(TokenizerRoutes, WhatAModelLacksIsNull) {
  const Json body = Json::parse(TokenizerInfoBody(
      {.bos_token = "<s>", .eos_token = "</s>", .model_max_length = 128, .add_bos_token = true}));
  EXPECT_EQ(body["bos_token"], "<s>");
  EXPECT_EQ(body["eos_token"], "</s>");
  EXPECT_TRUE(body["pad_token"].is_null());
  EXPECT_TRUE(body["chat_template"].is_null());
  EXPECT_EQ(body["model_max_length"], 128);
  EXPECT_EQ(body["add_bos_token"], true);
}

}  // namespace
}  // namespace baton
