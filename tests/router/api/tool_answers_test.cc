#include "router/api/tool_answers.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

ToolForm FormWithMarkers(bool special) {
  return ToolForm::OfTemplate("{{ tools }}[TOOL_CALLS]",
                              [special](absl::string_view) { return special; });
}

v1::GenerateRequest RequestWithTools(int tools) {
  v1::GenerateRequest request;
  request.mutable_chat();
  for (int i = 0; i < tools; ++i) request.mutable_chat()->add_tools()->set_name("f");
  return request;
}

// The ids of the calls of a choice, each of which has one.
std::vector<std::string> IdsOfCalls(const std::vector<std::unique_ptr<AnswerParser>>& parsers) {
  std::vector<std::string> ids;
  for (const auto& parser : parsers) {
    for (const AnswerPart& part : parser->Add(R"([TOOL_CALLS][{"name": "f", "arguments": {}}])")) {
      if (part.kind == AnswerPart::Kind::kCall) ids.push_back(part.id);
    }
  }
  return ids;
}

TEST(ToolAnswers, MarkersStayInTheTextWhereTheyAreSpecialTokensAndMayCome) {
  const auto leaves = [](const ToolForm& form, int tools) {
    v1::GenerateRequest request = RequestWithTools(tools);
    LeaveMarkers(form, request);
    const v1::SamplingParams& params = request.sampling_params();
    return params.has_skip_special_tokens() && !params.skip_special_tokens();
  };
  EXPECT_TRUE(leaves(FormWithMarkers(/*special=*/true), 1));
  EXPECT_FALSE(leaves(FormWithMarkers(/*special=*/true), 0));
  EXPECT_FALSE(leaves(FormWithMarkers(/*special=*/false), 1));
  const ToolForm reasoning =
      ToolForm::OfTemplate("<think></think>", [](absl::string_view) { return true; });
  EXPECT_TRUE(leaves(reasoning, 0)) << "reasoning comes without tools";
}

TEST(ToolAnswers, TokenIdsComeWhereTheyTellAMarkerFromAText) {
  const TokenTexts texts = {.bytes = [](uint32_t) { return absl::string_view(); },
                            .is_special = [](uint32_t) { return false; }};
  for (const bool special : {false, true}) {
    for (const int tools : {0, 1}) {
      v1::GenerateRequest request = RequestWithTools(tools);
      LeaveMarkers(FormWithMarkers(special).WithTokens(texts), request);
      EXPECT_EQ(request.return_token_ids(), special && tools > 0);
    }
  }
}

TEST(ToolAnswers, IdsOfCallsFollowFromTheIdOfTheAnswer) {
  const ToolForm form = FormWithMarkers(/*special=*/false);
  const v1::ChatInput chat = RequestWithTools(1).chat();
  const auto ids = [&](const std::string& answer_id, int choices) {
    return IdsOfCalls(
        ParsersOf({.model = "m", .request_id = "same", .answer_id = answer_id, .tool_form = form},
                  chat, choices));
  };
  const std::vector<std::string> two = ids("a", 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NE(two[0], two[1]);
  EXPECT_EQ(ids("a", 2), two);
  EXPECT_NE(ids("b", 1).front(), two[0]);
}

TEST(ToolAnswers, TheParserIsThatOfTheChatsOwnForm) {
  const ToolForm form = ToolForm::OfTemplate("<think></think>");
  ApiContext context{.model = "m", .request_id = "a", .tool_form = form};
  EXPECT_EQ(ParserOf(context, {})->Add("hm").front().kind, AnswerPart::Kind::kText);
  context.tool_form_for = [&](const v1::ChatInput&) { return form.WithOpenReasoning(true); };
  EXPECT_EQ(ParserOf(context, {})->Add("hm").front().kind, AnswerPart::Kind::kReasoning);
}

}  // namespace
}  // namespace baton
