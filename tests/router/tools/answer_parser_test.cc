// What the parsers of all families make of answers.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "router/tools/call_parser.h"
#include "tests/router/tools/joined_parts.h"
#include "tests/router/tools/sample_forms.h"

namespace baton {
namespace {

using Kind = ToolFormKind;
using ::testing::Each;
using ::testing::ElementsAre;

std::vector<AnswerPart> PartsOf(const ToolForm& form, const std::string& text, size_t piece,
                                const v1::ChatInput& chat = SampleChat()) {
  return Parsed(*form.NewParser(chat, 7, 0), text, piece);
}

struct Case {
  Kind kind;
  std::string text;
  std::string shown;
};

const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{
      // A call, two calls, text around them.
      {Kind::kHermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"}\"}}\n</tool_call>",
       R"(f#0{"s": "}"})"},
      {Kind::kHermes,
       "Look:\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</"
       "tool_call>\n<tool_call>{\"name\":\"g\","
       "\"arguments\":{\"a\":[1,{}]}}</tool_call>\n Done.",
       R"(Look: | f#0{} | g#1{"a":[1,{}]} | Done.)"},
      {Kind::kHermes, R"(<tool_call>{"arguments": {"n": 1}, "name": "f"}</tool_call>)",
       R"(f#0{"n": 1})"},
      {Kind::kHermes, R"(<tool_call>{"name": "g"}</tool_call>)", "g#0{}"},
      {Kind::kHermes, R"(<tool_call>{"name": "f", "arguments": "{\"n\": 1}"}</tool_call>)",
       R"(f#0{"n": 1})"},
      {Kind::kHermes,
       R"(<tool_call>{"type": "function", "function": {"name": "f", "arguments": {"n":1}}}</tool_call>)",
       R"(f#0{"n":1})"},
      {Kind::kHermes, R"(<tool_call>{"name":"f","arguments":{"n":1},"id":"x"}</tool_call>.)",
       R"(f#0{"n":1} | .)"},
      {Kind::kQwenXml,
       "Now:\n\n<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n"
       "</parameter>\n</function>\n</tool_call>\n",
       R"(Now: | f#0{"s": "12", "n": 12})"},
      {Kind::kQwenXml, "<function=g>\n<parameter=t>\na\n\"b\"</parameter></function>",
       R"(g#0{"t": "a\n\"b\""})"},
      {Kind::kQwenXml, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "f#0{}"},
      {Kind::kLlama3, R"( {"name": "f", "parameters": {"n": 1}})", R"(f#0{"n": 1})"},
      {Kind::kLlama3,
       R"(<|python_tag|>{"name":"f","parameters":{}}; {"name":"g","parameters":{"a":1}})",
       R"(f#0{} | g#1{"a":1})"},
      {Kind::kMistral,
       R"([TOOL_CALLS][{"name":"f","arguments":{"n":1},"id":"abcdefghi"}, {"name":"g","arguments":{}}])",
       R"(f#0{"n":1} | g#1{})"},
      {Kind::kMistralV13, R"(Hm.[TOOL_CALLS]f[ARGS]{"n":1}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{})",
       R"(Hm. | f#0{"n":1} | g#1{})"},
      {Kind::kGranite, R"(<|tool_call|>[{"name":"f","arguments":{}},{"name":"g","arguments":{}}])",
       "f#0{} | g#1{}"},
      {Kind::kPhi4, R"(<|tool_call|>[{"name":"f","arguments":{}}]<|/tool_call|>)", "f#0{}"},
      {Kind::kGeneric,
       R"({"tool_calls": [{"name": "f", "arguments": {"n": 1}}, {"name": "g", "arguments": {}}]})",
       R"(f#0{"n": 1} | g#1{})"},
      {Kind::kHarmony,
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.f <|constrain|>json<|message|>{\"n\":1}<|call|>",
       R"((Hm.) | f#0{"n":1})"},
      {Kind::kHarmony,
       " to=functions.g<|channel|>commentary<|message|><|end|><|start|>assistant<|channel|>final"
       "<|message|>Done.<|return|>",
       "g#0{} | Done."},
      {Kind::kHarmony, "No header.", "No header."},
      {Kind::kHarmony, " to=be", " to=be"},
      {Kind::kHarmony, "<|channel|>final<|message|>a<|end|>b", "ab"},
      // Reasoning.
      {Kind::kHermes,
       "<think>\nIs it <tool_call>?\n</think>\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}"
       "</tool_call>",
       "(Is it <tool_call>?) | f#0{}"},
      {Kind::kMistralV13, "[THINK]a[/THINK]b", "(a) | b"},
      {Kind::kHermes, "<think>cut", "(cut)"},
      {Kind::kHermes, "a <think> b", "a <think> b"},
      // What begins as a call and goes on as none is text.
      {Kind::kHermes, "<tool_call>none</tool_call>", "<tool_call>none</tool_call>"},
      {Kind::kHermes, R"(<tool_call>{"name": "f", "arguments": 1}</tool_call>)",
       R"(<tool_call>{"name": "f", "arguments": 1}</tool_call>)"},
      {Kind::kHermes, R"(<tool_call><tool_call>{"name":"f","arguments":{}}</tool_call>)",
       "<tool_call> | f#0{}"},
      {Kind::kHermes, R"(a <tool_call>{"name": "f b", "arguments": {}}</tool_call>)",
       R"(a <tool_call>{"name": "f b", "arguments": {}}</tool_call>)"},
      {Kind::kHermes, R"(<tool_call>{"name": "f", "argu)", R"(<tool_call>{"name": "f", "argu)"},
      {Kind::kHermes, "1 <tool", "1 <tool"},
      {Kind::kQwenXml, "<tool_call>\n<function=f>\n<param>x</function> </tool_call>",
       "<tool_call>\n<function=f>\n<param>x</function> </tool_call>"},
      {Kind::kQwenXml, "a  <function=f b></function>", "a  <function=f b></function>"},
      {Kind::kLlama3, R"({"name": "unknown", "parameters": {}})",
       R"({"name": "unknown", "parameters": {}})"},
      {Kind::kLlama3, R"({"parameters": {}, "name": "unknown"})",
       R"({"parameters": {}, "name": "unknown"})"},
      {Kind::kLlama3, R"(It is {"name": "f", "parameters": {}})",
       R"(It is {"name": "f", "parameters": {}})"},
      {Kind::kGeneric, R"({"tool_calls": []})", R"({"tool_calls": []})"},
      {Kind::kGeneric, R"({"answer": 1})", R"({"answer": 1})"},
      {Kind::kMistralV13, "[TOOL_CALLS]f {}", "[TOOL_CALLS]f {}"},
      // What goes wrong inside of the arguments, or behind them.
      {Kind::kHermes, R"(<tool_call>{"name":"f","arguments":{"n":1]}}</tool_call>)",
       R"(f#0{"n":1 | ]}}</tool_call>)"},
      {Kind::kHermes, R"(<tool_call>{"name":"f","arguments":{"n":1)", R"(f#0{"n":1)"},
      {Kind::kHermes, R"(<tool_call>{"name":"f","arguments":{}}</tool)", "f#0{}"},
      {Kind::kHermes, R"(<tool_call>{"name":"f","arguments":{}} more)", "f#0{} |  more"},
      {Kind::kMistral, R"([TOOL_CALLS][{"name":"f","arguments":{}}, 1])", "f#0{} | , 1]"},
  };
  return cases;
}

TEST(AnswerParsers, TellCallsReasoningAndTextApartHoweverTheTextIsCut) {
  for (const Case& one : Cases()) {
    for (size_t piece = 0; piece < 20; ++piece) {
      EXPECT_EQ(Shown(PartsOf(SampleForm(one.kind), one.text, piece)), one.shown)
          << static_cast<int>(one.kind) << " in pieces of " << piece;
    }
  }
}

// Two calls as each form has them.
std::vector<Case> TwoCalls() {
  const std::string both =
      R"([{"name": "f", "arguments": {"n": 1}}, {"name": "g", "arguments": {}}])";
  const std::string f = R"({"name": "f", "arguments": {"n": 1}})";
  const std::string g = R"({"name": "g", "arguments": {}})";
  const std::string channel = "<|channel|>commentary to=functions.";
  return {
      {Kind::kGeneric, "{\"tool_calls\": " + both + "}", ""},
      {Kind::kHermes, "<tool_call>\n" + f + "\n</tool_call>\n<tool_call>\n" + g + "\n</tool_call>",
       ""},
      {Kind::kQwenXml,
       "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>\n"
       "<tool_call>\n<function=g>\n<parameter=s>\nab\n</parameter>\n</function>\n</tool_call>",
       ""},
      {Kind::kQwenXml, "<tool_call>\n" + f + "\n</tool_call>\n<tool_call>\n" + g + "\n</tool_call>",
       ""},
      {Kind::kLlama3, R"({"name": "f", "parameters": {"n": 1}}; {"name": "g", "parameters": {}})",
       ""},
      {Kind::kMistral, "[TOOL_CALLS]" + both, ""},
      {Kind::kMistralV13, R"([TOOL_CALLS]f[ARGS]{"n": 1}[TOOL_CALLS]g[ARGS]{})", ""},
      {Kind::kHarmony,
       channel + "f<|message|>{\"n\": 1}<|call|><|start|>assistant" + channel +
           "g<|message|>{}<|call|>",
       ""},
      {Kind::kGranite, "<|tool_call|>" + both, ""},
      {Kind::kPhi4, "<|tool_call|>" + both + "<|/tool_call|>", ""},
  };
}

TEST(AnswerParsers, TheBeginningOfACallBehindAnotherIsNoText) {
  for (const Case& one : TwoCalls()) {
    for (size_t size = 0; size <= one.text.size(); ++size) {
      bool has_call = false;
      for (const AnswerPart& part : PartsOf(SampleForm(one.kind), one.text.substr(0, size), 5)) {
        has_call = has_call || part.kind == AnswerPart::Kind::kCall;
        EXPECT_FALSE(has_call && part.kind == AnswerPart::Kind::kText)
            << static_cast<int>(one.kind) << ": '" << part.text << "' of "
            << one.text.substr(0, size);
      }
    }
  }
  EXPECT_EQ(Shown(PartsOf(SampleForm(Kind::kHermes),
                          R"(<tool_call>{"name":"f","arguments":{}}</tool_call> I <tool_ca)", 0)),
            "f#0{} | I <tool_ca")
      << "text has come between";
}

TEST(AnswerParsers, OfAChatWithASingleCallOnlyTheFirstIsShown) {
  v1::ChatInput single = SampleChat();
  single.mutable_tool_choice()->set_single_call(true);
  for (const Case& one : TwoCalls()) {
    const std::string shown = Shown(PartsOf(SampleForm(one.kind), one.text, 3, single));
    EXPECT_TRUE(shown == R"(f#0{"n": 1})") << static_cast<int>(one.kind) << ": " << shown;
    EXPECT_NE(Shown(PartsOf(SampleForm(one.kind), one.text, 3)), shown);
  }
  EXPECT_EQ(Shown(PartsOf(SampleForm(Kind::kMistralV13),
                          "a[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS]"
                          "{\"s\": \"b\"}",
                          1, single)),
            "a | f#0{}");
}

TEST(AnswerParsers, WithoutToolsOnlyReasoningIsSplitOff) {
  v1::ChatInput none = SampleChat();
  none.mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_NONE);
  for (const v1::ChatInput& chat : {v1::ChatInput(), none}) {
    const std::string call = R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)";
    EXPECT_EQ(Shown(PartsOf(SampleForm(Kind::kHermes), "<think>a</think>" + call, 3, chat)),
              "(a) | " + call);
    EXPECT_EQ(Shown(PartsOf(SampleForm(Kind::kHarmony),
                            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>"
                            "commentary to=functions.f<|message|>{}",
                            3, chat)),
              "(a) | <|start|>assistant<|channel|>commentary to=functions.f<|message|>{}");
  }
}

TEST(AnswerParsers, ReasoningThatThePromptOpenedBeginsTheAnswer) {
  const ToolForm open = SampleForm(Kind::kHermes).WithOpenReasoning(true);
  EXPECT_TRUE(open.OpensReasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(open.OpensReasoning("<think>\n\n</think>\n\n"));
  EXPECT_EQ(Shown(PartsOf(open, "\na\n</think>\n\nb", 1)), "(a) | b");
  EXPECT_EQ(Shown(PartsOf(open, "a", 1)), "(a)");
  // A forced call begins at once.
  v1::ChatInput forced = SampleChat();
  forced.mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_REQUIRED);
  EXPECT_EQ(
      Shown(PartsOf(open, R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)", 1, forced)),
      "f#0{}");
}

TEST(AnswerParsers, ArgumentsComeAsTheyAreWrittenOnceTheNameIsKnown) {
  const auto parser = SampleForm(Kind::kHermes).NewParser(SampleChat(), 7, 0);
  EXPECT_THAT(parser->Add("Hi <tool_call>{\"name\": \"f\", "),
              ElementsAre(AnswerPart{.text = "Hi"}));
  const std::vector<AnswerPart> call = parser->Add("\"arguments\": {\"s\": \"a");
  ASSERT_EQ(call.size(), 2u);
  EXPECT_EQ(call[0].name, "f");
  EXPECT_EQ(call[1].text, "{\"s\": \"a");
  EXPECT_THAT(parser->Add("b"),
              ElementsAre(AnswerPart{.kind = AnswerPart::Kind::kArguments, .text = "b"}));
  EXPECT_THAT(parser->Add("\"}}</tool_call>"),
              ElementsAre(AnswerPart{.kind = AnswerPart::Kind::kArguments, .text = "\"}"}));
}

TEST(AnswerParsers, TextIsHeldBackOnlyWhileItMayBecomeAMarker) {
  const auto parser = SampleForm(Kind::kHermes).NewParser(SampleChat(), 7, 0);
  EXPECT_THAT(parser->Add("a <tool_"), ElementsAre(AnswerPart{.text = "a"}));
  EXPECT_THAT(parser->Add("box>"), ElementsAre(AnswerPart{.text = " <tool_box>"}));
  EXPECT_THAT(parser->Add("b"), ElementsAre(AnswerPart{.text = "b"}));
}

TEST(AnswerParsers, IdsAre24LettersAndDigitsThatFollowFromSeedChoiceAndCall) {
  const std::string text =
      "<|tool_call|>[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"f\","
      "\"arguments\":{}}]";
  const auto ids = [&](uint64_t seed, int choice) {
    std::vector<std::string> list;
    const auto parser = SampleForm(Kind::kGranite).NewParser(SampleChat(), seed, choice);
    for (const AnswerPart& part : Parsed(*parser, text, 0)) {
      if (part.kind == AnswerPart::Kind::kCall) list.push_back(part.id);
    }
    return list;
  };
  EXPECT_THAT(ids(1, 0), ::testing::SizeIs(2));
  EXPECT_THAT(ids(1, 0), Each(::testing::MatchesRegex("[A-Za-z0-9]{24}")));
  EXPECT_EQ(ids(1, 0), ids(1, 0));
  EXPECT_NE(ids(1, 0)[0], ids(1, 0)[1]);
  EXPECT_NE(ids(1, 0)[0], ids(2, 0)[0]);
  EXPECT_NE(ids(1, 0)[0], ids(1, 1)[0]);
}

TEST(AnswerParsers, AHeadOrAWholeCallThatIsTooLongIsText) {
  const std::string head = absl::StrCat("<tool_call>{", std::string(kMaxHeadBytes, ' '),
                                        R"("name":"f","arguments":{}}</tool_call>)");
  EXPECT_EQ(Shown(PartsOf(SampleForm(Kind::kHermes), head, 0)), head);
  EXPECT_EQ(Shown(PartsOf(SampleForm(Kind::kHermes), head, 7)), head);
  const std::string whole =
      absl::StrCat(R"(<tool_call>{"arguments":{"s":")", std::string(kMaxWholeCallBytes, 'a'),
                   R"("},"name":"f"}</tool_call>)");
  EXPECT_EQ(Shown(PartsOf(SampleForm(Kind::kHermes), whole, 0)), whole);
  EXPECT_EQ(Shown(PartsOf(SampleForm(Kind::kHermes), whole, 1000)), whole);
}

// Texts of pieces that mean something to one family or another.
std::string RandomAnswer(std::mt19937& random) {
  static const auto& pieces = *new std::vector<std::string>{"<tool_call>",
                                                            "</tool_call>",
                                                            "<function=f>",
                                                            "<parameter=s>",
                                                            "</parameter>",
                                                            "</function>",
                                                            "[TOOL_CALLS]",
                                                            "[ARGS]",
                                                            "[CALL_ID]",
                                                            "<|tool_call|>",
                                                            "<|/tool_call|>",
                                                            "<|python_tag|>",
                                                            "<|channel|>",
                                                            "<|message|>",
                                                            "<|end|>",
                                                            "<|start|>",
                                                            "<|call|>",
                                                            "analysis",
                                                            "final",
                                                            " to=functions.",
                                                            "<think>",
                                                            "</think>",
                                                            "[THINK]",
                                                            "[/THINK]",
                                                            "{\"name\": \"f\"",
                                                            "f",
                                                            "g",
                                                            ", \"arguments\": {",
                                                            "\"parameters\": {",
                                                            "\"a\": [1, true]",
                                                            "}",
                                                            "]",
                                                            "[",
                                                            "{",
                                                            ",",
                                                            ";",
                                                            "\"",
                                                            ":",
                                                            " ",
                                                            "\n",
                                                            "\n\n\n\n\n\n\n\n\n",
                                                            "x",
                                                            "<",
                                                            "{\"tool_calls\": [",
                                                            "é",
                                                            "\\"};
  std::string text;
  const size_t count = random() % 24;
  for (size_t i = 0; i < count; ++i) text += pieces[random() % pieces.size()];
  return text;
}

TEST(AnswerParsers, AnyCutOfAnyTextGivesTheSameParts) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = RandomAnswer(random);
    const Kind kind = kAllKinds[random() % std::size(kAllKinds)];
    const ToolForm form = SampleForm(kind).WithOpenReasoning(random() % 4 == 0);
    const std::vector<AnswerPart> whole = PartsOf(form, text, 0);
    for (const size_t piece : {1u, 2u, 5u, 13u}) {
      EXPECT_EQ(PartsOf(form, text, piece), whole) << static_cast<int>(kind) << ": " << text;
    }
  }
}

// All letters that no marker contains come back in their order.
TEST(AnswerParsers, NoTextIsLostBetweenMarkers) {
  std::mt19937 random(6);
  for (int round = 0; round < 2000; ++round) {
    const Kind kind = kAllKinds[random() % std::size(kAllKinds)];
    if (kind == Kind::kHarmony) continue;  // what stands in its headers is no text
    std::string text;
    std::string letters;
    for (const char letter : std::string("PQUVWXYZ")) {
      absl::StrAppend(&text, RandomAnswer(random), std::string(1, letter));
      letters += letter;
    }
    std::string found;
    for (const AnswerPart& part : PartsOf(SampleForm(kind), text, 3)) {
      absl::StrAppend(&found, part.name, part.text);
    }
    std::erase_if(found, [&](char byte) { return letters.find(byte) == std::string::npos; });
    EXPECT_EQ(found, letters) << static_cast<int>(kind) << ": " << text;
  }
}

}  // namespace
}  // namespace baton
