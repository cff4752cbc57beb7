#include "common/grammar/schema_disjoint.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

// The two in either order; references lead into "$defs" of the second's root.
bool Disjoint(const std::string& a, const std::string& b, const std::string& definitions = "{}") {
  const SchemaJson root = SchemaJson::parse(
      absl::StrCat(R"({"oneOf":[)", a, ",", b, R"(],"$defs":)", definitions, "}"));
  const bool disjoint = AreDisjoint(root["oneOf"][0], root["oneOf"][1], root);
  EXPECT_EQ(disjoint, AreDisjoint(root["oneOf"][1], root["oneOf"][0], root)) << a << " and " << b;
  return disjoint;
}

TEST(DisjointSchemas, DifferInTheirTypes) {
  EXPECT_TRUE(Disjoint(R"({"type":"string"})", R"({"type":["integer","null"]})"));
  EXPECT_TRUE(Disjoint(R"({"type":"object"})", R"({"const":[1]})"));
  EXPECT_TRUE(Disjoint(R"({"enum":[1,2.5]})", R"({"enum":["1",null]})"));
  EXPECT_FALSE(Disjoint(R"({"type":"integer"})", R"({"type":"number"})"));
  EXPECT_FALSE(Disjoint(R"({"type":["string","null"]})", R"({"type":"null"})"));
  EXPECT_FALSE(
      Disjoint(R"({"minLength":1})", R"({"type":"integer"})"));  // an integer has no length
  EXPECT_FALSE(Disjoint("{}", R"({"type":"integer"})"));
  EXPECT_FALSE(Disjoint("true", R"({"type":"integer"})"));
}

TEST(DisjointSchemas, DifferInTheirConstants) {
  EXPECT_TRUE(Disjoint(R"({"const":"a"})", R"({"const":"b"})"));
  EXPECT_TRUE(Disjoint(R"({"enum":["a",1]})", R"({"enum":["b",2,null]})"));
  EXPECT_FALSE(Disjoint(R"({"enum":["a","b"]})", R"({"enum":["b","c"]})"));
  EXPECT_FALSE(Disjoint(R"({"const":1})", R"({"const":1.0})"));
  EXPECT_FALSE(Disjoint(R"({"const":"a"})", R"({"type":"string","maxLength":0})"));
  // Equal objects, written otherwise.
  EXPECT_FALSE(Disjoint(R"({"const":{"a":1,"b":2}})", R"({"const":{"b":2,"a":1}})"));
}

TEST(DisjointSchemas, AreObjectsThatARequiredPropertyTellsApart) {
  const auto object = [](const std::string& properties, const std::string& more) {
    return absl::StrCat(R"({"type":"object","properties":{)", properties, "}", more, "}");
  };
  const std::string a = R"("is":{"const":"a"})";
  const std::string b = R"("is":{"const":"b"})";
  const std::string required = R"(,"required":["is"])";
  EXPECT_TRUE(Disjoint(object(a, required), object(b, required)));
  EXPECT_TRUE(Disjoint(object(a, required), object(b, "")));  // with `is` it is another one
  EXPECT_FALSE(Disjoint(object(a, ""), object(b, "")));       // {} is valid by both
  EXPECT_FALSE(Disjoint(object(a, required), object(a, required)));
  EXPECT_FALSE(Disjoint(object(a, required), object(R"("x":{"const":1})", R"(,"required":["x"])")));
  EXPECT_TRUE(Disjoint(object(a, required), object("", R"(,"additionalProperties":false)")));
  // Without a type, 1 is valid by both.
  EXPECT_FALSE(Disjoint(absl::StrCat(R"({"properties":{)", a, "}", required, "}"),
                        absl::StrCat(R"({"properties":{)", b, "}", required, "}")));
}

TEST(DisjointSchemas, AreLookedForBehindReferencesAndAlternatives) {
  const std::string definitions =
      R"({"text":{"type":"string"},"to":{"$ref":"#/$defs/text"},"loop":{"$ref":"#/$defs/loop"},
          "deep":{"type":"object","properties":{"a":{"$ref":"#/$defs/deep"}},"required":["a"]}})";
  EXPECT_TRUE(Disjoint(R"({"$ref":"#/$defs/to"})", R"({"type":"null"})", definitions));
  EXPECT_FALSE(Disjoint(R"({"$ref":"#/$defs/to"})", R"({"const":"a"})", definitions));
  const std::string either = R"({"anyOf":[{"type":"null"},{"$ref":"#/$defs/text"}]})";
  EXPECT_TRUE(Disjoint(either, R"({"type":"integer"})", definitions));
  EXPECT_FALSE(Disjoint(either, R"({"type":["integer","null"]})", definitions));
  for (const char* nowhere : {"#/$defs/loop", "#/$defs/none", "other.json", "#", "#/~"}) {
    EXPECT_FALSE(
        Disjoint(absl::StrCat(R"({"$ref":")", nowhere, "\"}"), R"({"type":"null"})", definitions));
  }
  EXPECT_FALSE(Disjoint(R"({"$ref":"#/$defs/deep"})", R"({"$ref":"#/$defs/deep"})", definitions));
}

}  // namespace
}  // namespace baton
