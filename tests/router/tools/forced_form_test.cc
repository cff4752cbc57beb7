// The forms to which a tool_choice holds answers.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/tools/joined_parts.h"
#include "tests/router/tools/sample_forms.h"

namespace baton {
namespace {

v1::ChatInput ChatWith(v1::ToolChoice::Mode mode, const std::string& name = "") {
  v1::ChatInput chat = SampleChat();
  chat.mutable_tool_choice()->set_mode(mode);
  chat.mutable_tool_choice()->set_name(name);
  return chat;
}

// An answer in the form: `calls` calls, of each tag in turn.
std::string AnswerIn(const v1::StructuralTags& tags, int calls) {
  std::string text = tags.begin();
  for (int i = 0; i < calls; ++i) {
    const v1::StructuralTag& tag = tags.tags(i % tags.tags_size());
    if (i > 0) text += tags.separator();
    text += tag.begin() + "{\"n\": " + std::to_string(i) + "}" + tag.end();
  }
  return text + tags.end();
}

TEST(ForcedForms, AreWhatTheParserOfTheFamilyReadsAsCalls) {
  for (const ToolFormKind kind : kAllKinds) {
    const ToolForm form = SampleForm(kind);
    const v1::ChatInput chat = ChatWith(v1::ToolChoice::MODE_REQUIRED);
    const auto format = form.FormOf(chat);
    ASSERT_TRUE(format.ok()) << format.status();
    const v1::StructuralTags& tags = format->structural_tags();
    EXPECT_EQ(tags.tags_size(), 2);
    EXPECT_TRUE(tags.parse_special());
    EXPECT_EQ(tags.several(), kind != ToolFormKind::kLlama3 && kind != ToolFormKind::kHarmony);
    for (int calls = 1; calls <= (tags.several() ? 3 : 1); ++calls) {
      const auto parser = form.NewParser(chat, 1, 0);
      std::string wanted;
      for (int i = 0; i < calls; ++i) {
        wanted += absl::StrCat(i > 0 ? " | " : "", i % 2 == 0 ? "f#" : "g#", i, "{\"n\": ", i, "}");
      }
      EXPECT_EQ(Shown(Parsed(*parser, AnswerIn(tags, calls), 1)), wanted) << static_cast<int>(kind);
    }
  }
}

TEST(ForcedForms, OfANamedToolOrOfASingleCallHaveOneCall) {
  const ToolForm form = SampleForm(ToolFormKind::kHermes);
  const auto named = form.FormOf(ChatWith(v1::ToolChoice::MODE_NAMED, "g"));
  ASSERT_TRUE(named.ok()) << named.status();
  ASSERT_EQ(named->structural_tags().tags_size(), 1);
  EXPECT_EQ(named->structural_tags().tags(0).begin(),
            "<tool_call>\n{\"name\": \"g\", \"arguments\": ");
  EXPECT_EQ(named->structural_tags().tags(0).schema(), R"({"type":"object"})");
  EXPECT_FALSE(named->structural_tags().several());
  v1::ChatInput single = ChatWith(v1::ToolChoice::MODE_REQUIRED);
  single.mutable_tool_choice()->set_single_call(true);
  EXPECT_FALSE(form.FormOf(single)->structural_tags().several());
}

TEST(ForcedForms, AreNoneWhereTheModelChooses) {
  for (const auto mode :
       {v1::ToolChoice::MODE_UNSPECIFIED, v1::ToolChoice::MODE_AUTO, v1::ToolChoice::MODE_NONE}) {
    EXPECT_EQ(SampleForm(ToolFormKind::kHermes).FormOf(ChatWith(mode))->form_case(),
              v1::ResponseFormat::FORM_NOT_SET);
  }
}

TEST(ForcedForms, ArgumentsAreAnObjectWhateverTheSchemaSays) {
  v1::ChatInput chat = ChatWith(v1::ToolChoice::MODE_REQUIRED);
  chat.mutable_tools(0)->set_parameters(R"({"properties":{"n":{}}})");
  EXPECT_EQ(SampleForm(ToolFormKind::kHermes).FormOf(chat)->structural_tags().tags(0).schema(),
            R"({"properties":{"n":{}},"type":"object"})");
}

TEST(ForcedForms, AnErrorNamesTheField) {
  const auto error = [](const v1::ChatInput& chat) {
    return std::string(SampleForm(ToolFormKind::kHermes).FormOf(chat).status().message());
  };
  EXPECT_THAT(error(ChatWith(v1::ToolChoice::MODE_NAMED, "h")),
              ::testing::HasSubstr("chat.tool_choice.name"));
  v1::ChatInput chat = ChatWith(v1::ToolChoice::MODE_REQUIRED);
  chat.mutable_tools(1)->set_parameters("[1]");
  EXPECT_THAT(error(chat), ::testing::HasSubstr("chat.tools[1].parameters"));
  chat.clear_tools();
  EXPECT_THAT(error(chat), ::testing::HasSubstr("chat.tool_choice"));
}

}  // namespace
}  // namespace baton
