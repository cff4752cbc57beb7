#include "common/grammar/schema_finite.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/grammar/schema_check.h"

namespace baton {
namespace {

// The pointer of the part that never ends; "" if there is none, "the schema" for the whole.
std::string Endless(const std::string& schema) {
  const absl::Status status = CheckSchema(schema).status();
  if (status.ok()) return "";
  const std::string message(status.message());
  EXPECT_THAT(message, ::testing::HasSubstr(" is not supported: it leads back to itself"))
      << schema;
  return message.substr(0, message.find(" is not supported"));
}

TEST(SchemaFinite, AnObjectOrArrayThatRequiresItselfIsRefusedByName) {
  for (const auto& [schema, pointer] : {
           std::pair(R"({"$ref":"#"})", "the schema"),
           std::pair(R"({"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"],
                         "additionalProperties":false})",
                     "the schema"),
           std::pair(R"({"type":"array","items":{"$ref":"#"},"minItems":1})", "the schema"),
           std::pair(
               R"({"type":"array","prefixItems":[{"type":"null"},{"$ref":"#"}],"minItems":2})",
               "the schema"),
           std::pair(R"({"items":[{"$ref":"#"}],"minItems":1})", "the schema"),
           std::pair(R"({"type":"object","additionalProperties":{"$ref":"#"},"minProperties":1})",
                     "the schema"),
           std::pair(R"({"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},
                         "minProperties":1})",
                     "the schema"),
           std::pair(R"({"type":["object","array"],"properties":{"a":{"$ref":"#"}},
                         "required":["a"],"items":{"$ref":"#"},"minItems":1})",
                     "the schema"),
           std::pair(R"({"allOf":[{"$ref":"#"}]})", "the schema"),
           std::pair(R"({"anyOf":[{"$ref":"#"},{"type":"array","items":{"$ref":"#"},
                         "minItems":1}]})",
                     "the schema"),
       }) {
    EXPECT_EQ(Endless(schema), pointer) << schema;
  }
}

TEST(SchemaFinite, PartsThatRequireEachOtherAreRefusedWhereAnAnswerMayComeToThem) {
  const std::string parts = R"("$defs":{
      "a":{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}},"required":["b"]},
      "b":{"type":"array","items":{"$ref":"#/$defs/a"},"minItems":1},
      "c":{"allOf":[{"$ref":"#/$defs/d"}]},"d":{"oneOf":[{"$ref":"#/$defs/c"}]},
      "ok":{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#/$defs/ok"},
                                      "minItems":1}]}})";
  for (const auto& [schema, pointer] : {
           std::pair(R"("$ref":"#/$defs/a")", "the schema"),
           std::pair(R"("type":"object","properties":{"x":{"$ref":"#/$defs/ok"},
                        "y":{"$ref":"#/$defs/b"}})",
                     "/properties/y"),
           std::pair(R"("type":"array","items":{"$ref":"#/$defs/c"})", "/items"),
           std::pair(R"("anyOf":[{"type":"null"},{"$ref":"#/$defs/d"}])", "/anyOf/1"),
           std::pair(R"("$ref":"#/$defs/ok")", ""),
           std::pair(R"("type":"array","items":{"$ref":"#/$defs/a"},"maxItems":0)", ""),
           std::pair(R"("type":"string")", ""),
       }) {
    EXPECT_EQ(Endless(absl::StrCat("{", schema, ",", parts, "}")), pointer) << schema;
  }
}

TEST(SchemaFinite, ARecursionThatMayEndIsNone) {
  for (const char* schema : {
           R"({"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false})",
           R"({"type":"object","properties":{"v":{"type":"integer"},
               "next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"]})",
           R"({"type":["object","null"],"properties":{"next":{"$ref":"#"}},"required":["next"]})",
           R"({"type":"array","items":{"$ref":"#"}})",
           R"({"type":"array","prefixItems":[{"$ref":"#"}]})",
           R"({"type":"object","additionalProperties":{"$ref":"#"}})",
           R"({"type":"object","properties":{"a":{"$ref":"#"},"b":{}},"minProperties":1})",
           R"({"type":"object","required":["a"],"minProperties":1})",
           R"({"type":"object","minProperties":1})",
       }) {
    EXPECT_EQ(Endless(schema), "") << schema;
  }
}

// A chain of references in which each part is found before the one that it wants.
TEST(SchemaFinite, ALongChainTakesTimeInProportionToIt) {
  constexpr int kParts = 4000;
  const auto chain = [&](const std::string& last) {
    std::string parts;
    for (int i = 0; i < kParts; ++i) {
      absl::StrAppend(&parts, "\"p", i, R"(":{"$ref":"#/$defs/p)", i + 1, "\"},");
    }
    return absl::StrCat(R"({"$ref":"#/$defs/p0","$defs":{)", parts, "\"p", kParts, "\":", last,
                        "}}");
  };
  EXPECT_EQ(Endless(chain(R"({"type":"null"})")), "");
  EXPECT_EQ(Endless(chain(R"({"$ref":"#/$defs/p0"})")), "the schema");
}

}  // namespace
}  // namespace baton
