#include "common/json/json_tree.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Kind = JsonFault::Kind;
using Ordered = nlohmann::ordered_json;

JsonFault FaultOf(const std::string& text, const JsonLimits& limits) {
  JsonFault fault;
  EXPECT_FALSE(ParseJson<Ordered>(text, limits, fault).has_value()) << text;
  return fault;
}

// A random value; as it is written it may have keys twice.
std::string RandomText(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return "null";
    case 1:
      return random() % 2 == 0 ? "true" : "false";
    case 2:
      return absl::StrCat(random() % 1000);
    case 3:
      return absl::StrCat("-", random() % 1000);
    case 4:
      return "1.5e-3";
    case 5:
      return "\"\\ud83d\\ude00 \\n\"";
    case 6: {
      std::string text = "[";
      const size_t count = random() % 5;
      for (size_t i = 0; i < count; ++i) {
        absl::StrAppend(&text, i > 0 ? ", " : "", RandomText(random, depth - 1));
      }
      return text + "]";
    }
    default: {
      std::string text = "{";
      const size_t count = random() % 9;
      for (size_t i = 0; i < count; ++i) {
        absl::StrAppend(&text, i > 0 ? ", " : "", "\"k", random() % 6,
                        "\": ", RandomText(random, depth - 1));
      }
      return text + "}";
    }
  }
}

TEST(JsonTree, IsThatOfTheLibraryForRandomTexts) {
  std::mt19937 random(3);
  JsonFault fault;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = RandomText(random, 5);
    EXPECT_EQ(ParseJson<Ordered>(text, JsonLimits(), fault)->dump(), Ordered::parse(text).dump());
    EXPECT_EQ(*ParseJson<nlohmann::json>(text, JsonLimits(), fault), nlohmann::json::parse(text));
  }
}

TEST(JsonTree, ATextThatIsNoJsonIsRefusedAtItsByte) {
  for (const char* text :
       {"", "{", "[1,]", "{}x", "{\"a\":NaN}", "\"\xFF\"", "{'a': 1}", "1e999"}) {
    EXPECT_EQ(FaultOf(text, {}).kind, Kind::kSyntax) << text;
    EXPECT_FALSE(Ordered::accept(text)) << text;
  }
  EXPECT_EQ(FaultOf("{\"a\" 1}", {}).byte, 6u);
  EXPECT_THAT(FaultOf("{\"a\" 1}", {}).what, HasSubstr("expected ':'"));
  EXPECT_EQ(FaultOf(std::string("{}\0x", 4), {}).byte, 3u);
  EXPECT_TRUE(ParseOrderedJson("[").is_discarded());
}

TEST(JsonTree, TheDepthIsThatOfTheInnermost) {
  JsonFault fault;
  EXPECT_TRUE(ParseJson<Ordered>(R"([{"a": [1]}, [[]]])", {.depth = 3}, fault).has_value());
  EXPECT_EQ(FaultOf(R"([{"a": [1]}, [[[]]]])", {.depth = 3}).kind, Kind::kDepth);
  EXPECT_EQ(FaultOf(std::string(1 << 20, '['), {.depth = 3}).kind, Kind::kDepth);
}

TEST(JsonTree, ValuesAndKeysAreCountedInAll) {
  const std::string text = R"({"a": [1, {}], "b": null})";  // 5 values and 2 keys
  JsonFault fault;
  EXPECT_TRUE(ParseJson<Ordered>(text, {.values = 7, .keys = 2}, fault).has_value());
  EXPECT_EQ(FaultOf(text, {.values = 6}).kind, Kind::kValues);
  EXPECT_EQ(FaultOf(text, {.keys = 1}).kind, Kind::kKeys);
  // The one value above the limit is of each kind once.
  for (const char* last : {"null", "true", "-1", "1", "1.5", "\"\"", "{}", "[]"}) {
    EXPECT_EQ(FaultOf(absl::StrCat("[0, ", last, "]"), {.values = 2}).kind, Kind::kValues) << last;
  }
}

TEST(JsonTree, AFaultNamesTheObjectItIsIn) {
  const std::string text =
      R"({"a": [0, [], {"x": 1}, {"b": {"c": 1}, "d": {"x": 1, "y": 2, "z": 3}}]})";
  const JsonFault fault = FaultOf(text, {.object_keys = 2});
  EXPECT_EQ(fault.kind, Kind::kObjectKeys);
  EXPECT_EQ(fault.path, "a[3].d");
}

TEST(JsonTree, AKeyMayStandTwiceUnlessTheLimitsSayOtherwise) {
  const std::string text = R"({"a": 1, "b": {"a": 2}, "a": 3})";
  JsonFault fault;
  EXPECT_EQ(ParseJson<Ordered>(text, {}, fault)->dump(), R"({"a":3,"b":{"a":2}})");
  const JsonFault twice = FaultOf(text, {.unique_keys = true});
  EXPECT_EQ(twice.kind, Kind::kRepeatedKey);
  EXPECT_EQ(twice.key, "a");
}

TEST(JsonTree, AnIntegerBeyondASignedOneOf64BitsIsRefusedWhereTheLimitsSaySo) {
  JsonFault fault;
  EXPECT_TRUE(ParseJson<Ordered>("9223372036854775807", {.signed_integers = true}, fault));
  EXPECT_TRUE(ParseJson<Ordered>("9223372036854775808", {}, fault));
  EXPECT_EQ(FaultOf("9223372036854775808", {.signed_integers = true}).kind, Kind::kInteger);
}

}  // namespace
}  // namespace baton
