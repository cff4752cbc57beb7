#include "common/grammar/schema_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/grammar/schema_keywords.h"

namespace baton {
namespace {

using ::testing::StartsWith;

std::string SchemaError(const std::string& schema) {
  const absl::StatusOr<CheckedSchema> checked = CheckSchema(schema);
  if (checked.ok()) return "";
  EXPECT_EQ(checked.status().code(), absl::StatusCode::kInvalidArgument) << checked.status();
  return std::string(checked.status().message());
}

TEST(SchemaCheck, EveryRefusedKeywordIsNamedByItsPointerWithARemedy) {
  for (const SchemaKeyword& keyword : SchemaKeywords()) {
    if (keyword.support != KeywordSupport::kRefused) continue;
    EXPECT_EQ(
        SchemaError(absl::StrCat(R"({"type":"object","properties":{"a":{"type":"array","items":{")",
                                 keyword.name, R"(":true}}}})")),
        absl::StrCat("/properties/a/items/", keyword.name, " is not supported: ", keyword.note));
    EXPECT_STRNE(keyword.note, "") << keyword.name;
  }
}

TEST(SchemaCheck, EveryAnnotationIsLeftOut) {
  const std::string plain = CheckSchema(R"({"type":"string"})")->text;
  for (const SchemaKeyword& keyword : SchemaKeywords()) {
    if (keyword.support != KeywordSupport::kAnnotation) continue;
    const absl::StatusOr<CheckedSchema> checked = CheckSchema(
        absl::StrCat(R"({"type":"string",")", keyword.name, R"(":{"uniqueItems":true}})"));
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->text, plain) << keyword.name;
  }
}

TEST(SchemaCheck, UnknownKeywordsAreRefused) {
  EXPECT_EQ(SchemaError(R"({"type":"string","nullable":true})"),
            "/nullable is not supported: it is not a known keyword");
  EXPECT_THAT(SchemaError(R"({"$defs":{"a/b~c":{"Type":"string"}}})"),
              StartsWith("/$defs/a~1b~0c/Type is not supported: "));
}

TEST(SchemaCheck, EveryPlaceOfASchemaIsChecked) {
  for (const auto& [schema, pointer] : {
           std::pair(R"({"anyOf":[{},{"not":{}}]})", "/anyOf/1/not"),
           std::pair(R"({"allOf":[{"not":{}}]})", "/allOf/0/not"),
           std::pair(R"({"type":"array","prefixItems":[{"not":{}}]})", "/prefixItems/0/not"),
           std::pair(R"({"type":"array","items":{"not":{}}})", "/items/not"),
           std::pair(R"({"type":"object","additionalProperties":{"not":{}}})",
                     "/additionalProperties/not"),
           std::pair(R"({"$ref":"#","$defs":{"x":{"not":{}}}})", "/$defs/x/not"),
           std::pair(R"({"definitions":{"x":{"not":{}}}})", "/definitions/x/not"),
       }) {
    EXPECT_THAT(SchemaError(schema), StartsWith(absl::StrCat(pointer, " is not supported: ")));
  }
}

// XGrammar reads one keyword of a schema and ignores those beside it.
TEST(SchemaCheck, KeywordsThatWouldBeIgnoredWhereTheyStandAreRefused) {
  for (const auto& [schema, pointer] : {
           std::pair(R"({"$ref":"#/$defs/a","minimum":1,"$defs":{"a":{}}})", "/minimum"),
           std::pair(R"({"$ref":"#","type":"object"})", "/type"),
           std::pair(R"({"const":1,"minimum":1})", "/minimum"),
           std::pair(R"({"enum":[1,2],"maximum":1})", "/maximum"),
           std::pair(R"({"enum":[1],"const":1})", "/enum"),
           std::pair(R"({"anyOf":[{"type":"object"}],"properties":{}})", "/properties"),
           std::pair(R"({"anyOf":[{}],"type":"string"})", "/type"),
           std::pair(R"({"allOf":[{"type":"integer"},{"minimum":1}]})", "/allOf"),
           std::pair(R"({"allOf":[]})", "/allOf"),
           std::pair(R"({"oneOf":[{"type":"string"}],"type":"string"})", "/type"),
           std::pair(R"({"minLength":1,"minItems":1})", "/minLength"),
           std::pair(R"({"type":"string","minimum":1})", "/minimum"),
           std::pair(R"({"type":["string","null"],"items":{}})", "/items"),
           std::pair(R"({"type":"string","pattern":"a","maxLength":1})", "/pattern"),
           std::pair(R"({"type":"string","pattern":"a","format":"date"})", "/pattern"),
           std::pair(R"({"type":"string","format":"date","minLength":1})", "/format"),
           std::pair(R"({"type":"string","format":"regex"})", "/format"),
           std::pair(R"({"type":"string","pattern":"\u00e4"})", "/pattern"),
           std::pair(R"({"type":"number","multipleOf":2})", "/multipleOf"),
           std::pair(R"({"type":["integer","number"],"multipleOf":2})", "/multipleOf"),
           std::pair(R"({"type":"integer","multipleOf":2000})", "/multipleOf"),
           std::pair(R"({"type":"integer","multipleOf":0.5})", "/multipleOf"),
           std::pair(R"({"type":"integer","multipleOf":2,"minimum":0})", "/multipleOf"),
           std::pair(R"({"type":"integer","multipleOf":2,"format":"int32"})", "/multipleOf"),
           std::pair(R"({"type":"integer","format":"date"})", "/format"),
           std::pair(R"({"type":"number","format":"int32"})", "/format"),
           std::pair(R"({"type":["string","integer"],"format":"int32"})", "/format"),
           std::pair(R"({"type":"integer","minimum":0.5})", "/minimum"),
           std::pair(R"({"type":"integer","maximum":1e300})", "/maximum"),
           std::pair(R"({"type":"number","minimum":1e-9})", "/minimum"),
           std::pair(R"({"type":"number","exclusiveMaximum":1e15})", "/exclusiveMaximum"),
           std::pair(R"({"type":"object","properties":{"a":{}},"required":["b"],
                         "additionalProperties":false})",
                     "/required"),
           std::pair(R"({"type":"object","required":["b"],"additionalProperties":{"type":"null"}})",
                     "/required"),
           std::pair(R"({"type":"object","properties":{"a":{}},
                         "additionalProperties":{"type":"null"}})",
                     "/additionalProperties"),
           std::pair(R"({"type":"object","properties":{"a\"b":{}}})", "/properties/a\"b"),
           std::pair(R"({"required":["a\"b"]})", "/properties/a\"b"),
           std::pair(R"({"type":"array","items":{},"additionalItems":false})", "/additionalItems"),
           std::pair(R"({"type":"array","items":[{}],"prefixItems":[{}]})", "/prefixItems"),
           std::pair(R"({"type":"array","uniqueItems":true})", "/uniqueItems"),
           std::pair(R"({"type":"array","items":{"id":"x"}})", "/items/id"),
           std::pair(R"({"type":"object","minProperties":2})", "/minProperties"),
           std::pair(R"({"type":"array","items":{"$id":"x"}})", "/items/$id"),
           std::pair(R"({"type":"array","items":false,"prefixItems":[false]})", "/prefixItems/0"),
       }) {
    EXPECT_THAT(SchemaError(schema), StartsWith(absl::StrCat(pointer, " is not supported: ")))
        << schema;
  }
}

TEST(SchemaCheck, OneOfIsAnyOfWhereItsSchemasExcludeEachOther) {
  EXPECT_EQ(SchemaError(R"({"oneOf":[{"type":"string"},{"type":"null"}]})"), "");
  EXPECT_EQ(SchemaError(R"({"oneOf":[{"type":"string"},{"type":"null"},{"const":"a"}]})"),
            "/oneOf is not supported: its schemas 0 and 2 may both be valid; give them different "
            "types, or a required property with different constants, or use anyOf");
}

TEST(SchemaCheck, WhatSaysNothingIsLeftOut) {
  const std::string plain = CheckSchema(R"({"type":"array"})")->text;
  for (const char* keyword : {R"("uniqueItems":false)", R"("x-order":3)"}) {
    const auto checked = CheckSchema(absl::StrCat(R"({"type":"array",)", keyword, "}"));
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->text, plain);
  }
}

TEST(SchemaCheck, ValuesOfKeywordsAreChecked) {
  for (const auto& [schema, error] : {
           std::pair(R"({"type":"str"})", "/type is not one or more of object, array"),
           std::pair(R"({"type":[]})", "/type is empty"),
           std::pair(R"({"type":3})", "/type is not one or more of"),
           std::pair(R"({"enum":[]})", "/enum is not an array with values"),
           std::pair(R"({"enum":3})", "/enum is not an array with values"),
           std::pair(R"({"enum":["a",3],"type":"string"})", "/enum has a value that is of no type"),
           std::pair(R"({"const":1.5,"type":"integer"})", "/const has a value that is of no type"),
           std::pair(R"({"anyOf":[]})", "/anyOf is not an array with schemas"),
           std::pair(R"({"anyOf":[3]})", "/anyOf/0 is neither an object nor a boolean"),
           std::pair(R"({"$ref":3})", "/$ref is not a string"),
           std::pair(R"({"type":"object","properties":[]})", "/properties is not an object"),
           std::pair(R"({"type":"object","properties":{},"required":3})",
                     "/required is not an array"),
           std::pair(R"({"type":"object","required":[3]})",
                     "/required has a name that is not a string"),
           std::pair(R"({"type":"object","maxProperties":-1})",
                     "/maxProperties is not an integer from"),
           std::pair(R"({"type":"array","minItems":1.5})", "/minItems is not an integer from"),
           std::pair(R"({"type":"array","maxItems":3000000000})",
                     "/maxItems is not an integer from"),
           std::pair(R"({"type":"string","maxLength":"3"})", "/maxLength is not an integer from"),
           std::pair(R"({"type":"string","minLength":2,"maxLength":1})", "/minLength is more than"),
           std::pair(R"({"type":"string","pattern":3})", "/pattern is not a string"),
           std::pair(R"({"type":"integer","minimum":true})", "/minimum is not a number"),
           std::pair(R"({"type":"integer","const":18446744073709551615})", "the schema has"),
           std::pair("[]", "the schema is not a JSON object"),
           std::pair("{", "the schema is not JSON: "),
           std::pair("{} {}", "the schema is not JSON: "),
           std::pair("{\"type\":\"\xff\"}", "the schema is not JSON: "),
       }) {
    EXPECT_THAT(SchemaError(schema), StartsWith(error)) << schema;
  }
}

TEST(SchemaCheck, ReferencesLeadToSchemasAlone) {
  EXPECT_EQ(SchemaError(R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}})"), "");
  EXPECT_EQ(SchemaError(R"({"type":"array","items":{"$ref":"#"}})"), "");
  EXPECT_EQ(SchemaError(R"({"type":"object","properties":{"a":{"type":"string"},
                            "b":{"$ref":"#/properties/a"}}})"),
            "");
  for (const char* to :
       {"#/$defs/b", "#/$defs", "#/default", "other.json", "#a", "", "#/$defs/a/x", "/$defs/a"}) {
    EXPECT_THAT(SchemaError(absl::StrCat(R"({"$ref":")", to,
                                         R"(","$defs":{"a":{}},"default":{"oneOf":[]}})")),
                StartsWith("/$ref is not supported: it refers to no schema here"))
        << to;
  }
  for (const char* to : {"#/$defs/a~1b", "#/$defs/a%2Fb", "#/$defs/", "#//$defs"}) {
    EXPECT_THAT(SchemaError(absl::StrCat(R"({"$ref":")", to, R"(","$defs":{"":{},"a/b":{}}})")),
                StartsWith("/$ref is not supported: its pointer has escaped or empty names"))
        << to;
  }
}

TEST(SchemaCheck, NestingIsBounded) {
  const auto nested = [](int levels) {
    std::string schema;
    for (int i = 0; i < levels; ++i) schema += R"({"type":"array","items":)";
    return schema + "{}" + std::string(levels, '}');
  };
  EXPECT_EQ(SchemaError(nested(kMaxSchemaDepth - 1)), "");
  EXPECT_EQ(SchemaError(nested(kMaxSchemaDepth + 1)), "the schema is nested more than 64 deep");
  EXPECT_EQ(SchemaError(nested(100'000)), "the schema is nested more than 64 deep");
  EXPECT_EQ(
      SchemaError(R"({"default":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
      "the schema is nested more than 64 deep");
}

TEST(SchemaCheck, TheClientsPatternsAreToldWithTheirPointers) {
  const absl::StatusOr<CheckedSchema> checked = CheckSchema(
      R"({"type":"object","properties":{"a":{"type":"string","pattern":"^x$"},
          "b":{"type":"string","format":"date"},"c":{"type":"string","maxLength":3}}})");
  ASSERT_TRUE(checked.ok()) << checked.status();
  ASSERT_EQ(checked->patterns.size(), 1u);
  EXPECT_EQ(checked->patterns[0].pointer, "/properties/a/pattern");
  EXPECT_EQ(checked->patterns[0].expression, "^x$");
}

}  // namespace
}  // namespace baton
