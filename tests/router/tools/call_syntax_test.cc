#include "router/tools/call_syntax.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "tests/router/tools/sample_forms.h"

namespace baton {
namespace {

// A section of two calls, or of as many as a section may have, each written as CALL.
std::string SectionOf(const CallSyntax& syntax) {
  const std::string calls =
      syntax.separator.empty() ? "CALL" : absl::StrCat("CALL", syntax.separator, "CALL");
  return absl::StrCat(syntax.begins.empty() ? "" : syntax.begins.front(),
                      absl::StrJoin(syntax.open, ""), calls, absl::StrJoin(syntax.close, ""));
}

TEST(CallSyntax, ASectionIsWrittenAsTheFamilyWritesIt) {
  const std::pair<ToolFormKind, const char*> sections[] = {
      {ToolFormKind::kGeneric, R"({"tool_calls":[CALL,CALL]})"},
      {ToolFormKind::kHermes, "<tool_call>CALL</tool_call>"},
      {ToolFormKind::kQwenXml, "<tool_call>CALL"},
      {ToolFormKind::kLlama3, "<|python_tag|>CALL;CALL"},
      {ToolFormKind::kMistral, "[TOOL_CALLS][CALL,CALL]"},
      {ToolFormKind::kMistralV13, "[TOOL_CALLS]CALL"},
      {ToolFormKind::kGranite, "<|tool_call|>[CALL,CALL]"},
      {ToolFormKind::kPhi4, "<|tool_call|>[CALL,CALL]"},
  };
  for (const auto& [kind, section] : sections) EXPECT_EQ(SectionOf(CallSyntaxOf(kind)), section);
}

TEST(CallSyntax, MarkersThatMayFollowASectionAreNoText) {
  EXPECT_EQ(CallSyntaxOf(ToolFormKind::kPhi4).trailing, std::vector<std::string>{"<|/tool_call|>"});
  EXPECT_EQ(CallSyntaxOf(ToolFormKind::kQwenXml).trailing,
            std::vector<std::string>{"</tool_call>"});
}

TEST(CallSyntax, EverySectionHasAMarkerUnlessTheAnswerBeginsWithIt) {
  for (const ToolFormKind kind : kAllKinds) {
    if (kind == ToolFormKind::kHarmony) continue;
    const CallSyntax syntax = CallSyntaxOf(kind);
    EXPECT_TRUE(syntax.is_bare || !syntax.begins.empty()) << static_cast<int>(kind);
    for (const std::string& marker : syntax.begins) EXPECT_FALSE(marker.empty());
    EXPECT_EQ(syntax.is_bare, kind == ToolFormKind::kGeneric || kind == ToolFormKind::kLlama3);
  }
}

TEST(CallSyntax, OneFamilyHasItsNamesBeforeTheArgumentsAndOneWritesXml) {
  for (const ToolFormKind kind : kAllKinds) {
    if (kind == ToolFormKind::kHarmony) continue;
    const CallSyntax syntax = CallSyntaxOf(kind);
    EXPECT_EQ(syntax.body == CallSyntax::Body::kNamed, kind == ToolFormKind::kMistralV13);
    EXPECT_EQ(syntax.has_xml, kind == ToolFormKind::kQwenXml);
  }
}

}  // namespace
}  // namespace baton
