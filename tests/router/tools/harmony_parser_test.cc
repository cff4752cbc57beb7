#include "router/tools/harmony_parser.h"

#include <string>

#include "gtest/gtest.h"

#include "tests/router/tools/joined_parts.h"

namespace baton {
namespace {

// The parts of an answer, which are the same however it is cut.
std::string ShownHarmony(const std::string& text, bool has_tools = true) {
  HarmonyParser at_once(has_tools, /*seed=*/7, /*choice=*/0);
  const std::string shown = Shown(Parsed(at_once, text, 0));
  for (const size_t piece : {size_t{1}, size_t{3}}) {
    HarmonyParser parser(has_tools, /*seed=*/7, /*choice=*/0);
    EXPECT_EQ(Shown(Parsed(parser, text, piece)), shown) << piece << ": " << text;
  }
  return shown;
}

constexpr char kCallOfF[] =
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"n\":1}<|call|>";

TEST(HarmonyParser, TellsReasoningCallsAndTextByTheirChannels) {
  EXPECT_EQ(ShownHarmony("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" +
                         std::string(kCallOfF) +
                         "<|start|>assistant<|channel|>final<|message|>Done.<|return|>"),
            R"((Hm.) | f#0{"n":1} | Done.)");
}

TEST(HarmonyParser, CountsTheCallsOfAnAnswer) {
  EXPECT_EQ(ShownHarmony(kCallOfF + std::string("\n<|start|>assistant") + kCallOfF),
            R"(f#0{"n":1} | f#1{"n":1})");
  EXPECT_EQ(ShownHarmony(" to=functions.g<|message|><|call|>"), "g#0{}") << "it has no arguments";
}

TEST(HarmonyParser, AMessageToAFunctionIsTextWithoutTools) {
  EXPECT_EQ(ShownHarmony("<|channel|>commentary to=functions.f<|message|>{}<|call|>", false),
            "<|channel|>commentary to=functions.f<|message|>{}");
}

TEST(HarmonyParser, AnAnswerWithoutAHeaderIsTextUpToTheFirstMarker) {
  EXPECT_EQ(ShownHarmony("Hi there<|end|><|channel|>analysis<|message|>hm"), "Hi there | (hm)");
  EXPECT_EQ(ShownHarmony(" to whom?"), " to whom?") << "it begins as a recipient does";
}

TEST(HarmonyParser, ALongHeaderIsText) {
  const std::string header = "<|channel|>" + std::string(kMaxHarmonyHeaderBytes, 'x');
  EXPECT_EQ(ShownHarmony(header + "y"), header + "y");
  const std::string most =
      "<|channel|>analysis" + std::string(kMaxHarmonyHeaderBytes - 30, 'x') + "<|message|>";
  ASSERT_EQ(most.size(), kMaxHarmonyHeaderBytes);
  EXPECT_EQ(ShownHarmony(most + "hm"), "(hm)");
}

}  // namespace
}  // namespace baton
