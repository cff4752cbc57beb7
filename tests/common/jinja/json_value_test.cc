#include "common/jinja/json_value.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/jinja/builtins.h"
#include "common/jinja/json_source.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

std::string Converted(const nlohmann::ordered_json& json) {
  Workspace workspace;
  return Shown(FromJson(workspace, json));
}

TEST(JsonValue, KeepsTheOrderOfKeysAndTrustsNothing) {
  EXPECT_EQ(Converted(nlohmann::ordered_json::parse(
                R"({"b": [1, 2.5, true, null, "x"], "a": {"c": -7, "b": ""}})")),
            "{'<b>': [<1>, <2.5>, <true>, none, '<x>'], '<a>': {'<c>': <-7>, '<b>': ''}}");
}

TEST(JsonValue, NumbersBeyond64BitsWithASignAreFloats) {
  EXPECT_EQ(Converted(nlohmann::ordered_json::parse("9223372036854775807")),
            "<9223372036854775807>");
  EXPECT_EQ(Converted(nlohmann::ordered_json::parse("9223372036854775808")),
            "<9.223372036854776e+18>");
}

TEST(JsonValue, TheTextOfAnObjectIsNoMemberAndIsWhatTojsonWrites) {
  Workspace workspace;
  const nlohmann::ordered_json json = {{"a", {{"b", 1}, {kJsonSourceKey, "{\"b\":1.0}"}}},
                                       {kJsonSourceKey, 3}};
  const absl::StatusOr<Value> value = FromJson(workspace, json);
  EXPECT_EQ(Shown(value), "{'<a>': {'<b>': <1>}, '<\x01json>': <3>}");
  EXPECT_EQ(Shown(ToJson(workspace, *value, nullptr, false)),
            "'{\"<a>\": <{\"b\":1.0}, >\"<\\u0001json>\": <3>}'");
}

TEST(JsonValue, DeepNestingIsRefused) {
  const auto nested = [](int depth) {
    nlohmann::ordered_json json = 1;
    for (int i = 0; i < depth; ++i) json = nlohmann::ordered_json::array({std::move(json)});
    return Converted(json);
  };
  EXPECT_EQ(nested(3), "[[[<1>]]]");
  EXPECT_THAT(nested(5000), ::testing::HasSubstr("error: JSON is nested deeper than"));
}

}  // namespace
}  // namespace baton::jinja
