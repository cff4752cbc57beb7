#include "router/openai/custom_tool.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/api/shown_chat.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

// The schema of the text of a custom tool with this format, or the field that is wrong.
Json InputOf(const Json& format) {
  const Json tool = {{"type", "custom"}, {"name", "f"}, {"format", format}};
  JsonFields fields(tool, "tools[1]");
  const Json schema = Json::parse(ReadCustomParameters(fields));
  if (!fields.status().ok()) return FieldOf(fields.status());
  EXPECT_EQ(schema["required"], Json::array({"input"}));
  EXPECT_EQ(schema["additionalProperties"], false);
  return schema["properties"]["input"];
}

Json RegexOf(const std::string& expression) {
  return InputOf({{"type", "grammar"}, {"syntax", "regex"}, {"definition", expression}});
}

TEST(CustomTool, ATextIsAString) {
  const Json any = {{"type", "string"}};
  EXPECT_EQ(InputOf(nullptr), any);
  EXPECT_EQ(InputOf({{"type", "text"}}), any);
}

TEST(CustomTool, ARegularExpressionThatCanBeHeldToIsAPattern) {
  for (const char* expression : {"[a-z]+", R"(\d{4}-\d{2}-\d{2})", "(?:yes|no)", "^a{1,128}$",
                                 R"(\w+\.txt)", "a{3,}", R"([^a]\^\$\{)"}) {
    EXPECT_EQ(RegexOf(expression), Json({{"type", "string"}, {"pattern", expression}}));
    EXPECT_EQ(InputOf({{"type", "grammar"},
                       {"grammar", {{"syntax", "regex"}, {"definition", expression}}}}),
              Json({{"type", "string"}, {"pattern", expression}}))
        << "as chat has it";
  }
}

TEST(CustomTool, AnotherGrammarIsToldAndNotEnforced) {
  for (const std::string& expression :
       {std::string("(?=a)b"), std::string(R"(\bword)"), std::string(R"(a\nb)"),
        std::string("a\nb"), std::string(R"((a)\1)"), std::string("\""), std::string(R"(\\)"),
        std::string("a{129}"), std::string("a{1,200}"), std::string("a{,3}"), std::string("a^b"),
        std::string("^a|^b"), std::string("a$|b$"), std::string("[[:alpha:]]+"),
        std::string("a{x}"), std::string(2000, 'a'), std::string("a\\"), std::string()}) {
    const Json input = RegexOf(expression);
    EXPECT_FALSE(input.contains("pattern")) << expression;
    EXPECT_THAT(input["description"].get<std::string>(), HasSubstr(expression));
  }
  const Json lark = InputOf(
      {{"type", "grammar"}, {"syntax", "lark"}, {"definition", "start: \"*** Begin Patch\""}});
  EXPECT_EQ(lark["description"],
            "Text that this Lark grammar describes:\nstart: \"*** Begin Patch\"");
  EXPECT_FALSE(lark.contains("pattern"));
}

TEST(CustomTool, AFormatThatIsNoneIsRefusedByName) {
  EXPECT_EQ(InputOf({{"type", "json"}}), "tools[1].format.type");
  EXPECT_EQ(InputOf(Json::object()), "tools[1].format.type");
  EXPECT_EQ(InputOf("text"), "tools[1].format");
  EXPECT_EQ(InputOf({{"type", "grammar"}}), "tools[1].format.syntax");
  EXPECT_EQ(InputOf({{"type", "grammar"}, {"syntax", "abnf"}, {"definition", "a"}}),
            "tools[1].format.syntax");
  EXPECT_EQ(InputOf({{"type", "grammar"}, {"syntax", "lark"}}), "tools[1].format.definition");
  EXPECT_EQ(InputOf({{"type", "grammar"}, {"grammar", {{"syntax", "regex"}}}}),
            "tools[1].format.grammar.definition");
}

}  // namespace
}  // namespace baton
