#include "router/responses/input_tokens.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/api/field_uses.h"
#include "tests/router/api/shown_chat.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

TEST(InputTokens, AreThoseOfTheSamePromptAsOfAResponse) {
  const ToolForm form{};
  const ApiContext context{.model = "m", .request_id = "q", .tool_form = form};
  const auto request = ReadInputTokens(R"({"model": "m", "input": "Hi", "instructions": "Be brief.",
                          "tools": [{"type": "function", "name": "f"}]})",
                                       context);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(MessagesOf(*request), ElementsAre("system: Be brief.", "user: Hi"));
  EXPECT_EQ(request->chat().tools_size(), 1);
  EXPECT_EQ(FieldOf(ReadInputTokens(R"({"model": "m"})", context).status()), "input");
  EXPECT_EQ(FieldOf(ReadInputTokens(R"({"input": 3})", context).status()), "input");
  EXPECT_FALSE(ReadInputTokens("[]", context).ok());
}

TEST(InputTokens, AreAnsweredAsOpenAiDoes) {
  EXPECT_EQ(InputTokensBody(12), R"({"object":"response.input_tokens","input_tokens":12})");
}

}  // namespace
}  // namespace baton
