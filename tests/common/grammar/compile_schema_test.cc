// The library holds answers to what schema_check.h lets pass.
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/grammar/schema_keywords.h"
#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

struct SchemaCase {
  const char* keywords;  // keywords that the case is about
  const char* schema;
  std::vector<std::string> valid;
  std::vector<std::string> invalid;
};

const std::vector<SchemaCase>& SchemaCases() {
  static const auto* const cases = new std::vector<SchemaCase>{
      {"type", R"({"type":"boolean"})", {"true", "false"}, {"null", "1", "\"true\"", "truefalse"}},
      {"type", R"({"type":"null"})", {"null"}, {"false", "nul"}},
      {"type", R"({"type":"integer"})", {"0", "-7", "120"}, {"1.5", "01", "1e3", "\"1\"", "-"}},
      {"type", R"({"type":"number"})", {"0", "-1.25", "1e-3"}, {"01", "1.", "\"1\""}},
      {"type", R"({"type":"string"})", {"\"\"", "\"a\\n\\\"\"", "\"ä\""}, {"a", "\"a", "\"\n\""}},
      {"type", R"({"type":["integer","null"]})", {"1", "null"}, {"1.5", "\"\"", "[]"}},
      {"type", R"({"type":"object"})", {"{}", R"({"a":1})", R"({"a":{"b":[]},"c":null})"}, {"[]"}},
      {"type", R"({"type":"array"})", {"[]", "[1]", R"([1,"a",{}])"}, {"{}", "[1,]"}},
      {"type", "{}", {"1", "null", "[]", "{}", "\"\""}, {"", "a"}},
      {"const", R"({"const":{"a":[1,"x"]}})", {R"({"a":[1,"x"]})"}, {R"({"a":[1,"y"]})", "{}"}},
      {"const", R"({"const":"a\"b"})", {R"("a\"b")"}, {"\"a\"", "\"b\""}},
      {"enum", R"({"enum":["red","green",3,null]})", {"\"red\"", "3", "null"}, {"\"blue\"", "4"}},
      {"enum", R"({"type":"string","enum":["a","b"]})", {"\"a\"", "\"b\""}, {"\"c\"", "a"}},
      {"anyOf", R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"}, {"\"\"", "{}"}},
      {"allOf", R"({"allOf":[{"type":"integer"}]})", {"1"}, {"null", "1.5"}},
      {"oneOf",
       R"({"oneOf":[{"type":"integer"},{"type":"array","items":{"$ref":"#"}}]})",
       {"1", "[1,[2]]"},
       {"null", "[null]"}},
      {"oneOf",
       R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
           "a":{"type":"object","properties":{"is":{"const":"a"},"x":{}},"required":["is","x"]},
           "b":{"type":"object","properties":{"is":{"const":"b"}},"required":["is"]}}})",
       {R"({"is":"a","x":1})", R"({"is":"b"})"},
       {R"({"is":"a"})", R"({"is":"b","x":1})", "{}"}},
      {"$ref $defs", R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}})", {"1"}, {"null"}},
      {"$ref definitions",
       R"({"type":"array","items":{"$ref":"#/definitions/a"},"definitions":{"a":{"const":1}}})",
       {"[]", "[1,1]"},
       {"[2]"}},
      {"$ref",
       R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
           "required":["next"]})",
       {R"({"next":null})", R"({"next":{"next":null}})"},
       {"{}", R"({"next":{}})", R"({"next":1})"}},
      {"properties required",
       R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},
           "required":["b"]})",
       {R"({"a":1,"b":"x"})", R"({"b":"x"})"},
       {"{}", R"({"a":1})", R"({"b":1})", R"({"b":"x","c":1})"}},
      {"properties", R"({"properties":{"a":{}}})", {"{}", R"({"a":1})"}, {"1", "[]"}},
      {"required",
       R"({"properties":{"a":{"type":"integer"}},"required":["b","a"]})",
       {R"({"a":1,"b":null})", R"({"a":1,"b":{"c":2}})"},
       {R"({"a":1})", R"({"b":1})", R"({"a":"x","b":1})"}},
      {"required", R"({"required":["a"]})", {R"({"a":[]})"}, {"{}", R"({"a":1,"c":1})", "1"}},
      {"properties additionalProperties",
       R"({"type":"object","properties":{"a":{}},"additionalProperties":true})",
       {"{}", R"({"a":1})"},
       {R"({"b":1})"}},
      {"properties", R"({"type":"object","properties":{}})", {"{}"}, {R"({"a":1})"}},
      {"additionalProperties",
       R"({"type":"object","additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":1,"b":2})"},
       {R"({"a":"x"})", R"({"a":1,"b":null})"}},
      {"additionalProperties",
       R"({"type":"object","additionalProperties":false})",
       {"{}"},
       {R"({"a":1})"}},
      {"maxProperties",
       R"({"type":"object","maxProperties":1})",
       {"{}", R"({"a":1})"},
       {R"({"a":1,"b":2})"}},
      {"minProperties", R"({"type":"object","minProperties":1})", {R"({"a":1})"}, {"{}"}},
      {"minProperties maxProperties",
       R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},
           "minProperties":2,"maxProperties":2})",
       {R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"c":3})"},
       {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
      {"items", R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1,2]"}, {"[1,null]"}},
      {"items", R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
      {"minItems maxItems",
       R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,3]"},
       {"[]", "[1]", "[1,2,3,4]"}},
      {"prefixItems",
       R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,2]", "[1,\"a\",3]"}},
      {"items additionalItems",
       R"({"type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":false})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,2]", "[1,\"a\",3]"}},
      {"items additionalItems",
       R"({"items":[{"const":1}],"additionalItems":{"const":2}})",
       {"[]", "[1]", "[1,2,2]"},
       {"[2]", "[1,1]", "1"}},
      {"prefixItems minItems",
       R"({"type":"array","prefixItems":[{"const":1}],"items":{"const":2},"minItems":2})",
       {"[1,2]", "[1,2,2]"},
       {"[]", "[1]", "[2,2]", "[1,1]"}},
      {"pattern",
       R"({"type":"string","pattern":"^[a-z]{2,3}$"})",
       {"\"ab\"", "\"abc\""},
       {"\"a\"", "\"abcd\"", "\"AB\"", "ab"}},
      {"pattern",
       R"({"type":"string","pattern":"^[^a]+$"})",
       {"\"b\"", "\"ä!\""},
       {"\"a\"", "\"\"", "\"b\"\"", "\"\n\"", "\"\\\""}},
      {"pattern",
       R"({"type":"string","pattern":"^a(b[0-9]+)?$"})",
       {"\"a\"", "\"ab1\"", "\"ab12\""},
       {"\"a1\"", "\"a12\"", "\"ab\""}},
      {"pattern",
       R"({"type":"string","pattern":"^(x(-[0-9]{1,3})??y?)$"})",
       {"\"x\"", "\"xy\"", "\"x-1\"", "\"x-123y\""},
       {"\"x12\"", "\"x-\"", "\"x-1234\"", "\"\""}},
      {"pattern",
       R"({"type":"string","pattern":"^(ab{1,2}){2,}$"})",
       {"\"abab\"", "\"abbabab\""},
       {"\"ab\"", "\"abb\"", "\"ababbbab\"", "\"abbabbbab\""}},
      {"pattern",
       R"({"type":"string","pattern":"^[a-f]{1,200}$"})",
       {"\"a\"", "\"abcdef\""},
       {"\"\"", "\"g\"", "\"a\"\"", "\"a\\\""}},
      {"format",
       R"({"type":"string","format":"time"})",
       {"\"12:00:00Z\"", "\"12:00:00.125Z\""},
       {"\"12:00:001Z\"", "\"12:00:0012Z\"", "\"12:00:00.Z\""}},
      {"maxLength",
       R"({"type":"string","maxLength":200})",
       {"\"\"", "\"ab\"", "\"äöü\""},
       {"\"a\"b\"", "\"a\t\"", "\"a\x01\"", "\"a\\\"", "\"a\n\""}},
      {"minLength", R"({"minLength":200})", {}, {"\"\"", "\"a\""}},
      {"format",
       R"({"type":"string","format":"date"})",
       {"\"2024-02-28\""},
       {"\"2024-02-30\"", "\"2024-2-1\"", "2024-02-28"}},
      {"format",
       R"({"type":"string","format":"uri"})",
       {"\"https://example.com/a?b=c#d\"", "\"mailto:a@b.c\""},
       {"\"example.com\"", "\"http://a b\""}},
      {"format",
       R"({"type":"string","format":"email"})",
       {"\"john.doe+x@mail.example.com\""},
       {"\"john\"", "\"a@b.\"", R"("\"\q\"@b")"}},
      {"format",
       R"({"type":"integer","format":"int32"})",
       {"0", "-2147483648", "2147483647"},
       {"2147483648", "-2147483649", "1.5"}},
      {"format minimum", R"({"type":"integer","format":"int64","minimum":1})", {"1"}, {"0", "-1"}},
      {"format", R"({"type":["number","null"],"format":"double"})", {"1.5", "null"}, {"\"1\""}},
      {"minLength maxLength",
       R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"äöü\"", "\"a😀\""},
       {"\"a\"", "\"abcd\"", "\"äöüß\"", "\"a\t\"", "\"a\x01\"", "\"a\\\"", "\"a\"\""}},
      {"minLength", R"({"minLength":2})", {"\"ab\""}, {"\"a\"", "1", "null"}},
      {"minLength", R"({"type":"string","minLength":2})", {"\"ab\"", "\"abcdef\""}, {"\"a\""}},
      {"minimum maximum",
       R"({"type":"integer","minimum":-3,"maximum":12})",
       {"-3", "0", "9", "12"},
       {"-4", "13", "100", "1.0"}},
      {"exclusiveMinimum exclusiveMaximum",
       R"({"type":"integer","exclusiveMinimum":-3,"exclusiveMaximum":12})",
       {"-2", "11"},
       {"-3", "12"}},
      {"minimum maximum",
       R"({"type":"number","minimum":0.25,"maximum":2.5})",
       {"0.25", "1", "2.5", "0.250001", "2.49"},
       {"0.24", "0.249999", "2.6", "2.500001", "0", "3", "-1", "1e3"}},
      {"exclusiveMinimum exclusiveMaximum",
       R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.5", "0.000001", "0.999999"},
       {"0", "0.0", "-0.0", "1", "1.0"}},
      {"minimum", R"({"minimum":2})", {"2", "2.5"}, {"1", "\"a\""}},
      {"multipleOf", R"({"multipleOf":2})", {"2", "-4"}, {"1", "2.5", "\"a\""}},
      {"multipleOf",
       R"({"type":"integer","multipleOf":7})",
       {"0", "7", "14", "-21", "700"},
       {"1", "8", "-20", "701"}},
  };
  return *cases;
}

TEST(CompiledSchemas, AllowWhatIsValidAndNothingElse) {
  for (const SchemaCase& example : SchemaCases()) {
    SCOPED_TRACE(example.schema);
    const auto grammar = CompiledSchema(example.schema);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    for (const std::string& text : example.valid) EXPECT_TRUE(Allows(**grammar, text)) << text;
    for (const std::string& text : example.invalid) EXPECT_FALSE(Allows(**grammar, text)) << text;
  }
}

TEST(CompiledSchemas, EveryEnforcedKeywordHasAnExample) {
  std::set<std::string> shown;
  for (const SchemaCase& example : SchemaCases()) {
    for (const SchemaKeyword& keyword : SchemaKeywords()) {
      if (absl::StrCat(" ", example.keywords, " ").find(absl::StrCat(" ", keyword.name, " ")) !=
          std::string::npos) {
        shown.insert(keyword.name);
      }
    }
  }
  for (const SchemaKeyword& keyword : SchemaKeywords()) {
    if (keyword.support != KeywordSupport::kEnforced) continue;
    EXPECT_TRUE(shown.count(keyword.name)) << keyword.name;
  }
}

// XGrammar alone takes such schemas for one.
TEST(CompiledSchemas, PropertiesNamedAsAnnotationsAreToldApart) {
  for (const char* name : {"title", "description", "default", "examples"}) {
    const auto grammar = CompiledSchema(absl::StrCat(
        R"({"type":"object","required":["a","b"],"properties":{
             "a":{"type":"object","required":[")",
        name, R"("],"properties":{")", name,
        R"(":{"type":"string"}}},
             "b":{"type":"object","required":[")",
        name, R"("],"properties":{")", name, R"(":{"type":"integer"}}}}})"));
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    const auto answer = [&](absl::string_view a, absl::string_view b) {
      return absl::StrCat(R"({"a":{")", name, "\":", a, R"(},"b":{")", name, "\":", b, "}}");
    };
    EXPECT_TRUE(Allows(**grammar, answer("\"x\"", "1"))) << name;
    EXPECT_FALSE(Allows(**grammar, answer("\"x\"", "\"x\""))) << name;
    EXPECT_FALSE(Allows(**grammar, answer("1", "1"))) << name;
  }
  const auto constants =
      CompiledSchema(R"({"type":"array","prefixItems":[{"const":{"title":1}},{"const":{"title":2}}],
                         "items":false,"minItems":2})");
  ASSERT_TRUE(constants.ok()) << constants.status();
  EXPECT_TRUE(Allows(**constants, R"([{"title":1},{"title":2}])"));
  EXPECT_FALSE(Allows(**constants, R"([{"title":1},{"title":1}])"));
}

TEST(CompiledSchemas, WhitespaceIsOneCharacterAtMost) {
  const auto grammar = CompiledSchema(R"({"type":"object","properties":{"a":{"type":"array"}}})");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  EXPECT_TRUE(Allows(**grammar, R"({"a":[1,2]})"));
  EXPECT_TRUE(Allows(**grammar, R"({ "a": [1, 2] })"));
  EXPECT_FALSE(Allows(**grammar, R"({  "a":[1,2]})"));
  EXPECT_FALSE(Allows(**grammar, R"({"a":  [1,2]})"));
  EXPECT_FALSE(Allows(**grammar, R"({"a":[1,  2]})"));
}

TEST(CompiledSchemas, PatternsThatNoJsonStringCanBeHeldToAreRefused) {
  for (const char* pattern : {R"(^\"$)", R"(^a\\\\b$)", R"(^\\n$)"}) {
    EXPECT_EQ(
        CompileError(SpecOf(GrammarKind::kJsonSchema,
                            absl::StrCat(R"({"type":"array","items":{"type":"string","pattern":")",
                                         pattern, R"("}})"))),
        "response_format.json_schema: /items/pattern is not supported: it cannot be compiled for "
        "JSON strings; write a simpler expression")
        << pattern;
  }
}

TEST(CompiledSchemas, WhatTheLibraryWouldIgnoreIsAnError) {
  for (const char* pattern : {"^a(?=b)c$", "a^b", "a$b", "(?!x)a"}) {
    EXPECT_NE(
        CompileError(SpecOf(GrammarKind::kJsonSchema,
                            absl::StrCat(R"({"type":"string","pattern":")", pattern, R"("})"))),
        "")
        << pattern;
  }
}

TEST(CompiledSchemas, WhatNothingIsValidByIsAnError) {
  for (const char* schema : {
           R"({"$ref":"#"})",
           R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
           R"({"type":"integer","minimum":3,"maximum":2})",
           R"({"type":"array","items":false,"minItems":1})",
           R"({"type":"object","properties":{"a":{}},"minProperties":2})",
       }) {
    EXPECT_THAT(CompileError(SpecOf(GrammarKind::kJsonSchema, schema)),
                ::testing::StartsWith("response_format.json_schema: "))
        << schema;
  }
}

// The time to compile them grows with the square of the bound.
TEST(CompiledSchemas, LargeBoundsOfStringsAreRefusedAtOnceByName) {
  const auto object = [](const std::string& string, int count) {
    std::string properties;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&properties, i > 0 ? "," : "", "\"p", i, R"(":{"type":"string",)", string,
                      "}");
    }
    return absl::StrCat(R"({"type":"object","properties":{)", properties, "}}");
  };
  for (const auto& [string, count, pointer] : {
           std::tuple(R"("maxLength":2049)", 1, "/properties/p0/maxLength"),
           std::tuple(R"("maxLength":100000)", 1, "/properties/p0/maxLength"),
           std::tuple(R"("minLength":1,"maxLength":4096)", 1, "/properties/p0/maxLength"),
           std::tuple(R"("minLength":5000)", 1, "/properties/p0/minLength"),
           std::tuple(R"("pattern":"^[a-z]{1,5000}$")", 1, "/properties/p0/pattern"),
           std::tuple(R"("pattern":"^a(b[0-9]{1,200}){1,128}$")", 1, "/properties/p0/pattern"),
           std::tuple(R"("maxLength":2000)", 5, "/properties/p1/maxLength"),
           std::tuple(R"("minLength":1024)", 5, "/properties/p4/minLength"),
       }) {
    const std::string schema = object(string, count);
    EXPECT_THAT(CompileError(SpecOf(GrammarKind::kJsonSchema, schema)),
                ::testing::StartsWith(absl::StrCat("response_format.json_schema: ", pointer,
                                                   " is not supported: it repeats characters ")))
        << schema;
  }
  GrammarSpec tags;
  tags.kind = GrammarKind::kTags;
  for (const char* name : {"f", "g"}) {
    tags.tags.push_back({.begin = name, .schema = object(R"("maxLength":2000)", 1), .end = "."});
  }
  EXPECT_THAT(CompileError(tags),
              ::testing::StartsWith("response_format.structural_tags: tag 1: "
                                    "/properties/p0/maxLength is not supported: it repeats "
                                    "characters 2000 times beside others"));
}

// A token may end what stands at the root within itself, and what is around it.
TEST(CompileSchema, ARootWithinItselfMayBeEndedByATokenTogetherWithWhatIsAroundIt) {
  const struct {
    GrammarSpec spec;
    const char* before;
    const char* token;
  } cases[] = {
      {SpecOf(GrammarKind::kJsonSchema,
              R"({"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false})"),
       R"({"a":{"a":{})", "}}"},
      {SpecOf(GrammarKind::kJsonSchema,
              R"({"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]})"),
       "[[[null", "]]"},
      {SpecOf(GrammarKind::kGrammar, R"x(root ::= "x" | "(" root ")")x"), "(((x", "))"},
  };
  for (const auto& [spec, before, token] : cases) {
    SCOPED_TRACE(spec.text);
    ASSERT_EQ(TokensOf(token).size(), 1u);
    const auto grammar = CompiledFor(spec);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    absl::StatusOr<GrammarState> state = StateAfter(**grammar, before);
    ASSERT_TRUE(state.ok()) << state.status();
    std::vector<uint32_t> mask(MaskWords(state->vocab_size()));
    ASSERT_TRUE(state->FillMask(absl::MakeSpan(mask)).ok());
    EXPECT_TRUE(MaskAllows(mask.data(), TokensOf(token)[0]));
  }
}

}  // namespace
}  // namespace baton
