// Markers among tokens, and texts that are spelled like them.
#include "router/tools/marker_tokens.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "router/tools/harmony_parser.h"
#include "tests/router/tools/joined_parts.h"
#include "tests/router/tools/sample_forms.h"

namespace baton {
namespace {

using Kind = ToolFormKind;

struct Token {
  std::string text;
  bool is_special = false;
};
Token Special(const std::string& text) { return {.text = text, .is_special = true}; }
Token Plain(const std::string& text) { return {.text = text}; }

// Each token is the one of its place in the answer.
TokenTexts TextsOf(const std::vector<Token>& answer) {
  return {.bytes = [&answer](uint32_t id) { return absl::string_view(answer.at(id).text); },
          .is_special = [&answer](uint32_t id) { return answer.at(id).is_special; }};
}

void Append(std::vector<AnswerPart> more, std::vector<AnswerPart>& parts) {
  std::move(more.begin(), more.end(), std::back_inserter(parts));
}

// What the parser makes of the answer: the same, whether text comes with its token or behind all of
// them, in pieces of any size.
std::string ShownTokens(Kind kind, const std::vector<Token>& answer) {
  const ToolForm form = SampleForm(kind, /*special=*/true).WithTokens(TextsOf(answer));
  EXPECT_TRUE(form.needs_token_ids());
  std::vector<AnswerPart> parts;
  const auto by_token = form.NewParser(SampleChat(), 7, 0);
  std::vector<uint32_t> ids;
  std::string text;
  for (uint32_t id = 0; id < answer.size(); ++id) {
    by_token->AddTokens({id});
    Append(by_token->Add(answer[id].text), parts);
    ids.push_back(id);
    text += answer[id].text;
  }
  Append(by_token->Finish(), parts);
  std::string shown = Shown(Joined(parts));
  for (const size_t piece : {0u, 1u, 3u, 7u}) {
    const auto behind = form.NewParser(SampleChat(), 7, 0);
    behind->AddTokens(ids);
    EXPECT_EQ(Shown(Parsed(*behind, text, piece)), shown) << "in pieces of " << piece;
  }
  return shown;
}

// What it makes of the text alone.
std::string ShownText(Kind kind, const std::vector<Token>& answer) {
  const ToolForm form = SampleForm(kind, /*special=*/true).WithTokens(TextsOf(answer));
  std::string text;
  for (const Token& token : answer) text += token.text;
  return Shown(Parsed(*form.NewParser(SampleChat(), 7, 0), text, 3));
}

TEST(MarkerTokens, EveryControlTokenOfHarmonyMaySpellInArguments) {
  for (const std::string& marker : HarmonyMarkers()) {
    const std::string arguments = "{\"s\": \"a " + marker + " b\"}";
    EXPECT_EQ(ShownTokens(Kind::kHarmony,
                          {Special("<|channel|>"), Plain("commentary to=functions.f "),
                           Special("<|constrain|>"), Plain("json"), Special("<|message|>"),
                           Plain(arguments), Special("<|call|>")}),
              "f#0" + arguments);
  }
}

TEST(MarkerTokens, EveryControlTokenOfHarmonyMaySpellInText) {
  for (const std::string& marker : HarmonyMarkers()) {
    const std::string said = "say " + marker + " now";
    EXPECT_EQ(ShownTokens(Kind::kHarmony, {Plain(said)}), said) << "as a choice has it";
    EXPECT_EQ(ShownTokens(Kind::kHarmony,
                          {Special("<|channel|>"), Plain("analysis"), Special("<|message|>"),
                           Plain(said), Special("<|end|>"), Special("<|start|>"),
                           Plain("assistant"), Special("<|channel|>"), Plain("final"),
                           Special("<|message|>"), Plain(said), Special("<|return|>")}),
              "(" + said + ") | " + said);
  }
}

TEST(MarkerTokens, SeveralTokensMaySpellOne) {
  EXPECT_EQ(ShownTokens(Kind::kHarmony, {Plain("say <"), Plain("|ca"), Plain("ll|"), Plain("> now"),
                                         Plain(" <|end|")}),
            "say <|call|> now <|end|");
  EXPECT_EQ(ShownTokens(Kind::kHarmony, {Plain("<|"), Special("<|call|>")}), "<|");
}

TEST(MarkerTokens, OtherFormsTellTheirMarkersFromTextsToo) {
  const std::string call = R"([{"name":"f","arguments":{"s":"[TOOL_CALLS]"}}])";
  EXPECT_EQ(ShownTokens(Kind::kMistral, {Special("[TOOL_CALLS]"), Plain(call)}),
            R"(f#0{"s":"[TOOL_CALLS]"})");
  EXPECT_EQ(ShownTokens(Kind::kMistral, {Plain("Write [TOOL_CALLS]" + call)}),
            "Write [TOOL_CALLS]" + call);
  const std::string whole = R"([{"arguments":{"s":"[TOOL_CALLS]"},"name":"f"}])";
  EXPECT_EQ(ShownTokens(Kind::kMistral, {Special("[TOOL_CALLS]"), Plain(whole)}),
            R"(f#0{"s":"[TOOL_CALLS]"})");
  EXPECT_EQ(ShownTokens(Kind::kMistralV13, {Special("[THINK]"), Plain("a [/THINK] b"),
                                            Special("[/THINK]"), Plain("c")}),
            "(a [/THINK] b) | c");
  EXPECT_EQ(ShownTokens(Kind::kMistralV13, {Plain("[THINK]a[/THINK]"), Special("[TOOL_CALLS]"),
                                            Plain("f"), Special("[ARGS]"), Plain("{}")}),
            "[THINK]a[/THINK] | f#0{}");
  EXPECT_EQ(
      ShownTokens(Kind::kPhi4, {Special("<|tool_call|>"), Plain(R"([{"name":"f","arguments":{}}])"),
                                Special("<|/tool_call|>"), Plain("<|tool_call|>")}),
      "f#0{} | <|tool_call|>");
}

TEST(MarkerTokens, WithoutTokensEachTextIsTakenForTheToken) {
  EXPECT_EQ(ShownText(Kind::kHarmony, {Plain("<|channel|>analysis<|message|>a<|end|>b")}),
            "(a) | b");
  EXPECT_EQ(ShownText(Kind::kMistral, {Plain(R"([TOOL_CALLS][{"name":"f","arguments":{}}])")}),
            "f#0{}");
}

TEST(MarkerTokens, AFormWithoutSpecialMarkersNeedsNoTokens) {
  const std::vector<Token> none;
  EXPECT_FALSE(SampleForm(Kind::kHermes).WithTokens(TextsOf(none)).needs_token_ids());
  EXPECT_FALSE(SampleForm(Kind::kHarmony, /*special=*/true).needs_token_ids())
      << "whose vocabulary is not known";
}

}  // namespace
}  // namespace baton
