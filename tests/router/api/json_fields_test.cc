#include "router/api/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

TEST(ParseJsonBody, OnlyAnObjectIsABody) {
  EXPECT_TRUE(ParseJsonBody(R"({"a": 1})").ok());
  for (const char* body : {"", "[]", "3", "null", "\"a\"", "{", "{}x", "{\"a\": NaN}",
                           "{\"a\": \"\xFF\"}", "{'a': 1}", "{\"a\": 1e999}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseJsonBody(body).status())) << body;
  }
  for (const size_t place : {size_t{0}, size_t{3}, size_t{8}}) {
    std::string body = R"({"a": 1})";
    body.insert(place, 1, '\0');
    EXPECT_TRUE(absl::IsInvalidArgument(ParseJsonBody(body).status())) << place;
  }
  EXPECT_THAT(
      std::string(ParseJsonBody("{\"a\" 1}").status().message()),
      AllOf(HasSubstr("byte 6: "), HasSubstr("expected ':'"), Not(HasSubstr("json.exception"))));
  EXPECT_THAT(std::string(ParseJsonBody(R"({"a": {"b": "\udc00"}})").status().message()),
              HasSubstr("the body has \\udc00, half of a UTF-16 pair"));
}

TEST(ParseJsonBody, KeysKeepTheirOrderAndTheLastOfTwoCounts) {
  EXPECT_EQ(ParseJsonBody(R"({"b": 1, "a": 2})")->dump(), R"({"b":1,"a":2})");
  EXPECT_EQ((*ParseJsonBody(R"({"a": 1, "a": 2})"))["a"], 2);
}

TEST(ParseJsonBody, TheDepthIsBounded) {
  const auto nested = [](size_t levels) {
    return "{\"a\":" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  EXPECT_TRUE(ParseJsonBody(nested(127)).ok());
  EXPECT_THAT(std::string(ParseJsonBody(nested(128)).status().message()), HasSubstr("levels"));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseJsonBody(nested(100000)).status()));
}

// An object with so many keys.
std::string Keys(size_t count) {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i) absl::StrAppend(&text, i > 0 ? "," : "", "\"", i, "\":0");
  return text + "}";
}

TEST(ParseJsonBody, TheKeysOfAnObjectAreBounded) {
  EXPECT_TRUE(ParseJsonBody(Keys(kMaxObjectKeys)).ok());
  const absl::Status body = ParseJsonBody(Keys(kMaxObjectKeys + 1)).status();
  EXPECT_THAT(std::string(body.message()), HasSubstr("keys"));
  const absl::Status inside = ParseJsonBody(R"({"a": [0, [], {"x": 1}, {"b": {"c": 1}, "d": )" +
                                            Keys(kMaxObjectKeys + 1) + R"(}], "e": 1})")
                                  .status();
  ASSERT_EQ(FieldViolations(inside).size(), 1u) << inside;
  EXPECT_EQ(FieldViolations(inside)[0].field, "a[3].d");
}

TEST(ParseJsonBody, TheKeysOfAllObjectsTogetherAreBounded) {
  const auto objects = [](size_t count) {
    std::string list;
    for (size_t i = 0; i < count; ++i) {
      absl::StrAppend(&list, i > 0 ? "," : "", Keys(kMaxObjectKeys / 2));
    }
    return absl::StrCat("{\"a\":[", list, "]}");
  };
  constexpr size_t kObjects = 2 * kMaxJsonKeys / kMaxObjectKeys;
  EXPECT_TRUE(ParseJsonBody(objects(kObjects - 1)).ok());
  EXPECT_EQ(FieldViolations(ParseJsonBody(objects(kObjects)).status())[0].field,
            absl::StrCat("a[", kObjects - 1, "]"));
}

TEST(ParseJsonBody, EachFaultOfItsSyntaxIsTold) {
  for (const auto& [body, told] :
       {std::pair("{\"a\": 1e999}", "number overflow"), std::pair("{\"a\": \"b", "missing closing"),
        std::pair("{\"a\": \"\xFF\"}", "UTF-8"), std::pair("{", "end of input")}) {
    const std::string message(ParseJsonBody(body).status().message());
    EXPECT_THAT(message, AllOf(HasSubstr(told), Not(HasSubstr("json.exception")))) << body;
  }
  const std::string zero("{\0}", 3);
  EXPECT_THAT(std::string(ParseJsonBody(zero).status().message()),
              HasSubstr("at byte 2: a byte is zero"));
}

TEST(JsonFields, AWordThatIsNotServedIsToldWithThoseThatAre) {
  const Json image = Json::parse(R"({"type": "image"})");
  JsonFields fields(image, "messages[0].content[2]");
  fields.FailUnserved("type", "text or tool_result");
  EXPECT_EQ(FieldViolations(fields.status())[0].field, "messages[0].content[2].type");
  EXPECT_EQ(FieldViolations(fields.status())[0].description,
            "'image' is not served; use text or tool_result");
  const Json none = Json::object();
  JsonFields empty(none);
  empty.FailUnserved("type", "text");
  EXPECT_EQ(FieldViolations(empty.status())[0].description, "is missing; use text");
}

TEST(JsonFields, NullAndAbsentAreOne) {
  const Json json = Json::parse(R"({"a": null})");
  JsonFields fields(json);
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(fields.Find(name), nullptr);
    EXPECT_FALSE(fields.Bool(name).has_value());
    EXPECT_FALSE(fields.Integer(name, 0, 1).has_value());
    EXPECT_FALSE(fields.Number(name).has_value());
    EXPECT_FALSE(fields.String(name).has_value());
    EXPECT_EQ(fields.Object(name), nullptr);
    EXPECT_EQ(fields.Array(name), nullptr);
    fields.Refuse(name);
  }
  EXPECT_TRUE(fields.status().ok()) << fields.status();
}

TEST(JsonFields, ValuesOfTheRightTypeAreRead) {
  const Json json =
      Json::parse(R"({"b": true, "i": -3, "w": 2.0, "n": 0.5, "s": "x", "o": {"y": 1}, "l": [1]})");
  JsonFields fields(json);
  EXPECT_EQ(fields.Bool("b"), true);
  EXPECT_EQ(fields.Integer("i", -3, 0), -3);
  EXPECT_EQ(fields.Integer("w", 0, 2), 2);
  EXPECT_EQ(fields.Number("n"), 0.5);
  EXPECT_EQ(fields.Number("i"), -3);
  EXPECT_EQ(fields.String("s"), "x");
  EXPECT_NE(fields.Object("o"), nullptr);
  EXPECT_NE(fields.Array("l"), nullptr);
  EXPECT_TRUE(fields.status().ok()) << fields.status();
}

TEST(JsonFields, AWrongTypeIsAnErrorThatNamesTheField) {
  const auto wrong = [](const char* value, auto read) {
    const Json json = {{"f", Json::parse(value)}};
    JsonFields fields(json, "outer");
    read(fields);
    const auto violations = FieldViolations(fields.status());
    return violations.size() == 1 && violations[0].field == "outer.f";
  };
  EXPECT_TRUE(wrong("1", [](JsonFields& fields) { fields.Bool("f"); }));
  EXPECT_TRUE(wrong("\"true\"", [](JsonFields& fields) { fields.Bool("f"); }));
  EXPECT_TRUE(wrong("true", [](JsonFields& fields) { fields.Integer("f", 0, 5); }));
  EXPECT_TRUE(wrong("1.5", [](JsonFields& fields) { fields.Integer("f", 0, 5); }));
  EXPECT_TRUE(wrong("6", [](JsonFields& fields) { fields.Integer("f", 0, 5); }));
  EXPECT_TRUE(wrong("-1", [](JsonFields& fields) { fields.Integer("f", 0, 5); }));
  EXPECT_TRUE(wrong("18446744073709551615", [](JsonFields& fields) { fields.Integer("f", 0, 5); }));
  EXPECT_TRUE(wrong("1e39", [](JsonFields& fields) { fields.Number("f"); }));
  EXPECT_TRUE(wrong("\"1\"", [](JsonFields& fields) { fields.Number("f"); }));
  EXPECT_TRUE(wrong("1", [](JsonFields& fields) { fields.String("f"); }));
  EXPECT_TRUE(wrong("[]", [](JsonFields& fields) { fields.Object("f"); }));
  EXPECT_TRUE(wrong("{}", [](JsonFields& fields) { fields.Array("f"); }));
  EXPECT_TRUE(wrong("1", [](JsonFields& fields) { fields.Refuse("f"); }));
  EXPECT_TRUE(wrong("1", [](JsonFields& fields) { fields.Refuse("f", false); }));
  EXPECT_FALSE(wrong("false", [](JsonFields& fields) { fields.Refuse("f", false); }));
}

TEST(JsonFields, TheFirstErrorIsKeptAndFurtherFieldsReadAsAbsent) {
  const Json json = Json::parse(R"({"a": 1, "b": 2, "c": true})");
  JsonFields fields(json);
  fields.String("a");
  fields.String("b");
  EXPECT_FALSE(fields.Bool("c").has_value());
  ASSERT_EQ(FieldViolations(fields.status()).size(), 1u);
  EXPECT_EQ(FieldViolations(fields.status())[0].field, "a");
  JsonFields outer(json);
  outer.Adopt(absl::OkStatus());
  EXPECT_TRUE(outer.status().ok());
  outer.Adopt(fields.status());
  outer.Fail("c", "is late");
  EXPECT_EQ(FieldViolations(outer.status())[0].field, "a");
}

}  // namespace
}  // namespace baton
