#include "router/tools/chat_shape.h"

#include <fstream>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/tools/public_templates.h"

namespace baton {
namespace {

ChatShape ShapeOf(const std::string& source) {
  const auto compiled = ChatTemplate::Compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return ShapeOf(*compiled, ToolForm::OfTemplate(source).kind(), {});
}

std::string LaterOf(const std::string& source) {
  return std::string(NameOf(ShapeOf(source).later_system));
}

constexpr char kLoop[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";

TEST(ChatShape, ATemplateKeepsLaterSystemMessagesWhereItRendersThemInPlace) {
  EXPECT_EQ(LaterOf(kLoop), "kept");
  EXPECT_EQ(LaterOf("{% for m in messages %}{% if m.role != 'system' or loop.first %}"
                    "{{ m.content }}{% endif %}{% endfor %}"),
            "lost");
  EXPECT_EQ(LaterOf("{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
                    "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}"),
            "raises");
  EXPECT_EQ(LaterOf("{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
                    "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"),
            "moved");
  // A default at the head, which a system message anywhere turns off.
  EXPECT_EQ(LaterOf("{% if messages | selectattr('role', 'equalto', 'system') | list | length == 0 "
                    "%}Be kind.{% endif %}" +
                    std::string(kLoop)),
            "moved");
  // Behind all others, too.
  EXPECT_EQ(LaterOf("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}"
                    "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"),
            "moved");
}

// A template may treat one place unlike the others.
TEST(ChatShape, TheWorstPlaceCounts) {
  EXPECT_EQ(LaterOf("{% for m in messages %}{% if m.role == 'system' and loop.last %}"
                    "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}"),
            "raises");
  EXPECT_EQ(LaterOf("{% for m in messages %}{% if m.role == 'system' and not loop.first and "
                    "loop.previtem.role == 'assistant' %}{% else %}{{ m.content }}{% endif %}"
                    "{% endfor %}"),
            "lost");
  // Only behind the results of tools, which a template without tools is not asked about.
  const std::string behind_results =
      "{% for m in messages %}{% if m.role == 'system' and not loop.first and "
      "loop.previtem.role == 'tool' %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(LaterOf(behind_results), "kept");
  EXPECT_EQ(LaterOf(behind_results + "{# tools <tool_call>{\"name\"</tool_call> #}"), "lost");
}

TEST(ChatShape, KnowsTemplatesWithoutASystemAndThoseThatTakeTurns) {
  const ChatShape plain = ShapeOf(kLoop);
  EXPECT_TRUE(plain.has_system);
  EXPECT_FALSE(plain.takes_turns);
  const ChatShape gemma = ShapeOf(
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('alternate') }}{% endif %}{{ m.content }}{% endfor %}");
  EXPECT_FALSE(gemma.has_system);
  EXPECT_TRUE(gemma.takes_turns);
  EXPECT_EQ(gemma.later_system, LaterSystem::kRaises);
  const ChatShape silent =
      ShapeOf("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}");
  EXPECT_FALSE(silent.has_system);
  EXPECT_EQ(silent.later_system, LaterSystem::kLost);
  // With the last message of the user, as Mistral's have it.
  EXPECT_FALSE(ShapeOf("{% for m in messages if m.role != 'system' %}{% if loop.last and "
                       "messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
                       "{{ m.content }}{% endfor %}")
                   .has_system);
}

TEST(ChatShape, ATemplateThatFailsForEveryChatCountsAsOneThatRaises) {
  EXPECT_EQ(LaterOf("{{ raise_exception('no') }}"), "raises");
  EXPECT_EQ(LaterOf("{{ tools | length }}{{ tools[0].name }}{{ raise_exception('no') }}"),
            "raises");
}

TEST(ChatShape, ArgumentsAreTextWhereTheTemplateMakesJsonOfATextOnly) {
  const auto text_arguments = [](const std::string& arguments) {
    return ShapeOf(
               "{# tools <tool_call>{\"name\"</tool_call> #}{% for m in messages %}"
               "{{ m.content }}{% for c in m.tool_calls or [] %}{% set a = "
               "c.function.arguments %}" +
               arguments + "{% endfor %}{% endfor %}")
        .text_arguments;
  };
  EXPECT_TRUE(text_arguments("{{ a }}"));
  EXPECT_FALSE(text_arguments("{{ a if a is string else a | tojson }}"));
  EXPECT_FALSE(text_arguments("{{ a | tojson }}"));
  EXPECT_FALSE(text_arguments("{% for k, v in a.items() %}{{ k }}={{ v }}{% endfor %}"));
}

// The rows of the table in docs/agents.md: "| `name` | word |".
TEST(ChatShape, TheDocumentNamesThePublicTemplatesThatDoNotKeepLaterSystemMessages) {
  std::map<std::string, std::string> documented, probed;
  std::ifstream file(absl::StrCat(BATON_TEST_DATA, "/../../docs/agents.md"));
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '`');
    ASSERT_EQ(cells.size(), 3u) << line;
    documented[cells[1]] = cells[2].substr(3, cells[2].size() - 5);  // " | raises |"
  }
  for (const PublicTemplate& each : PublicTemplates()) {
    if (each.shape.later_system == LaterSystem::kKept) continue;
    probed[each.name] = std::string(NameOf(each.shape.later_system));
  }
  EXPECT_EQ(documented, probed);
}

}  // namespace
}  // namespace baton
