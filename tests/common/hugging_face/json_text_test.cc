#include "common/hugging_face/json_text.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr JsonFileLimits kLimits = {.bytes = 200, .values = 20, .depth = 4};

std::string JsonError(const std::string& text) {
  return std::string(ParseJsonObject(text, "f.json", kLimits).status().message());
}

TEST(JsonText, ObjectsAreParsedAndAllElseIsRefused) {
  const auto json = ParseJsonObject(R"({"a": [1, 2], "b": {"a": "x"}})", "f.json", kLimits);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["b"]["a"], "x");
  for (const char* bad : {"", "{", "{\"a\":}", "{\"a\":1e999}", "{\"a\":\"\xff\"}", "{}}"}) {
    EXPECT_THAT(JsonError(bad), StartsWith("f.json: is not JSON: byte ")) << bad;
  }
  for (const char* bad : {"[]", "1", "\"{}\"", "null"}) {
    EXPECT_EQ(JsonError(bad), "f.json: is not a JSON object; fetch the file again") << bad;
  }
}

TEST(JsonText, AKeyStandsOnceInAnObject) {
  EXPECT_THAT(JsonError(R"({"a": 1, "b": 2, "a": 1})"), StartsWith("f.json: 'a' appears twice"));
  EXPECT_THAT(JsonError(R"({"x": [{"a": 1}, {"b": {}, "b": 2}]})"), HasSubstr("'b' appears twice"));
  EXPECT_EQ(JsonError(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})"), "");
}

TEST(JsonText, LimitsAreKeptWhateverComesBehind) {
  EXPECT_EQ(JsonError(R"({"a": [[{"b": 1}]]})"), "");
  EXPECT_THAT(JsonError(R"({"a": [[{"b": []}]]})"), HasSubstr("nested deeper than 4"));
  EXPECT_EQ(JsonError(R"({"a": "[[[[[[[[[[,,,,,,,,,,,,,,,,,,,,,,,,\"[["})"), "");
  EXPECT_THAT(JsonError("{\"a\":[0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9"),
              HasSubstr("more than 20 values"));
  EXPECT_THAT(JsonError(std::string(201, ' ')), HasSubstr("has 201 bytes of JSON, more than 200"));
  const std::string deep(1 << 20, '[');
  const JsonFileLimits large = {.bytes = 1 << 21, .values = 1 << 21, .depth = 32};
  EXPECT_THAT(std::string(ParseJsonObject(deep, "f.json", large).status().message()),
              HasSubstr("nested deeper than 32"));
}

TEST(JsonFileFields, HaveTheTypeAndTheRangeThatIsAskedFor) {
  const auto json = nlohmann::json::parse(
      R"({"count": 7, "real": 2.5, "whole": 8.0, "yes": true, "text": "t", "none": null,
          "negative": -1, "numbers": [1, 2.5], "mixed": [1, "a"], "object": {"inner": 3}})");
  const JsonFileFields fields(json, "f.json");
  EXPECT_EQ(*fields.Count("count", 7, 7), 7u);
  EXPECT_EQ(*fields.Count("whole", 1, 8), 8u);
  EXPECT_EQ(*fields.CountOr("none", 0, 9, 4), 4u);
  EXPECT_EQ(*fields.Number("real"), 2.5);
  EXPECT_EQ(*fields.NumberOr("missing", 1.5), 1.5);
  EXPECT_TRUE(*fields.BoolOr("yes", false));
  EXPECT_EQ(*fields.TextOr("text", ""), "t");
  EXPECT_THAT(*fields.Numbers("numbers"), ElementsAre(1, 2.5));
  EXPECT_EQ(*fields.Object("object")->Count("inner", 0, 3), 3u);
  EXPECT_FALSE(fields.Has("none"));
  const auto error = [](const auto& result) { return std::string(result.status().message()); };
  EXPECT_EQ(error(fields.Count("count", 0, 6)), "f.json: count is not a whole number from 0 to 6");
  EXPECT_THAT(error(fields.Count("negative", 0, 6)), HasSubstr("negative is not a whole number"));
  EXPECT_THAT(error(fields.Count("real", 0, 6)), HasSubstr("real is not a whole number"));
  EXPECT_THAT(error(fields.Count("text", 0, 6)), HasSubstr("text is not a whole number"));
  EXPECT_THAT(error(fields.Count("none", 0, 6)), HasSubstr("none is missing; fetch"));
  EXPECT_THAT(error(fields.Number("yes")), HasSubstr("yes is not a number"));
  EXPECT_THAT(error(fields.BoolOr("count", true)), HasSubstr("count is neither true nor false"));
  EXPECT_THAT(error(fields.Text("count")), HasSubstr("count is not a string"));
  EXPECT_THAT(error(fields.Numbers("mixed")), HasSubstr("mixed is not an array of numbers"));
  EXPECT_THAT(error(fields.Texts("mixed")), HasSubstr("mixed is not an array of strings"));
  EXPECT_THAT(error(fields.Object("count")), HasSubstr("count is not an object"));
  EXPECT_THAT(error(fields.Object("object")->Number("x")), HasSubstr("object.x is missing"));
}

}  // namespace
}  // namespace baton
