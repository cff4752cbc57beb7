#include "common/grammar/schema_text.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::StartsWith;

std::string SchemaTextError(const std::string& text) {
  return std::string(ParseSchemaText(text).status().message());
}

// Objects that are nested so deep, with a number in the last one.
std::string NestedObjects(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += "{\"a\":";
  return text + "1" + std::string(static_cast<size_t>(depth), '}');
}

TEST(SchemaText, KeepsTheOrderOfItsProperties) {
  const auto schema = ParseSchemaText(R"({"b": 1, "a": {"d": 2, "c": 3}})");
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_EQ(schema->dump(), R"({"b":1,"a":{"d":2,"c":3}})");
}

TEST(SchemaText, IsAnObjectThatIsNotNestedTooDeep) {
  EXPECT_TRUE(ParseSchemaText(NestedObjects(kMaxSchemaDepth)).ok());
  EXPECT_EQ(SchemaTextError(NestedObjects(kMaxSchemaDepth + 1)),
            "the schema is nested more than 64 deep");
  EXPECT_EQ(SchemaTextError("[{}]"), "the schema is not a JSON object");
  EXPECT_EQ(SchemaTextError("true"), "the schema is not a JSON object");
  EXPECT_THAT(SchemaTextError("{"), StartsWith("the schema is not JSON: "));
}

TEST(SchemaText, HasNoHalfOfAPairAndNoIntegerBeyond64Bits) {
  EXPECT_TRUE(ParseSchemaText(R"({"const": "\ud83d\ude00"})").ok());
  EXPECT_THAT(SchemaTextError(R"({"const": "\ud83d"})"), StartsWith("the schema has \\ud83d, "));
  EXPECT_TRUE(ParseSchemaText(R"({"const": 9223372036854775807})").ok());
  EXPECT_EQ(SchemaTextError(R"({"const": 9223372036854775808})"),
            "the schema has an integer of more than 64 bits");
}

}  // namespace
}  // namespace baton
