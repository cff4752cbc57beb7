#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/rpc/status.h"
#include "router/openai/common_fields.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

v1::ResponseFormat Form(const std::string& body) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  v1::GenerateRequest request;
  ReadFormFields(fields, request);
  EXPECT_TRUE(fields.status().ok()) << fields.status();
  return request.response_format();
}
std::string WrongForm(const std::string& body) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  v1::GenerateRequest request;
  ReadFormFields(fields, request);
  const auto violations = FieldViolations(fields.status());
  return violations.empty() ? "" : violations.front().field;
}

TEST(FormFields, EveryTypeOfResponseFormat) {
  EXPECT_FALSE(Form(R"({"response_format": {"type": "text"}})").has_json_object());
  EXPECT_TRUE(Form(R"({"response_format": {"type": "json_object"}})").has_json_object());
  const char* const schema = R"({"response_format": {"type": "json_schema", "json_schema":
      {"name": "n", "strict": false, "schema": {"b": 1, "a": 2}}}})";
  EXPECT_EQ(Form(schema).json_schema(), R"({"b":1,"a":2})") << "the order is the client's";
  EXPECT_EQ(WrongForm(R"({"response_format": {"type": "xml"}})"), "response_format.type");
  EXPECT_EQ(WrongForm(R"({"response_format": {}})"), "response_format.type");
  EXPECT_EQ(WrongForm(R"({"response_format": {"type": "json_schema"}})"),
            "response_format.json_schema");
  EXPECT_EQ(WrongForm(R"({"response_format": {"type": "json_schema",
                          "json_schema": {"schema": 3}}})"),
            "response_format.json_schema.schema");
}

TEST(FormFields, ASchemaThatIsNotWhereItIsReadIsRefusedByName) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"type": "json_schema", "json_schema": {"name": "n"}})", "json_schema.schema"},
      {R"({"type": "json_schema", "json_schema": {}})", "json_schema.schema"},
      {R"({"type": "json_schema", "json_schema": {"name": "n", "schema": null}})",
       "json_schema.schema"},
      {R"({"type": "json_schema", "json_schema": {"type": "object", "required": ["city"]}})",
       "json_schema.schema"},
      {R"({"type": "json_schema", "json_schema": {"name": "n", "json_schema": {}}})",
       "json_schema.schema"},
      {R"({"type": "json_schema", "json_schema": {"name": "n", "Schema": {}}})",
       "json_schema.schema"},
      {R"({"type": "json_schema", "schema": {"const": 1}})", "json_schema"},
      {R"({"type": "json_schema", "schema": {}, "json_schema": {"schema": {}}})", "schema"},
      {R"({"type": "json_object", "json_schema": {"schema": {}}})", "json_schema"},
      {R"({"type": "text", "json_schema": {"schema": {}}})", "json_schema"},
      {R"({"type": "text", "schema": {}})", "schema"},
  };
  for (const auto& [format, field] : wrong) {
    EXPECT_EQ(WrongForm(std::string(R"({"response_format": )") + format + "}"),
              std::string("response_format.") + field)
        << format;
  }
  EXPECT_EQ(
      Form(R"({"response_format": {"type": "json_object", "schema": {"a": 1}}})").json_schema(),
      R"({"a":1})")
      << "as llama.cpp has it";
}

TEST(FormFields, AKeyOfAFormThatIsNotReadIsRefusedByName) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"structured_outputs": {}})", "structured_outputs.json"},
      {R"({"structured_outputs": {"json": null}})", "structured_outputs.json"},
      {R"({"structured_outputs": {"json_object": false}})", "structured_outputs.json"},
      {R"({"structured_outputs": {"jsn": {"const": 1}}})", "structured_outputs.jsn"},
      {R"({"structured_outputs": {"json": {}, "whitespace_pattern": " "}})",
       "structured_outputs.whitespace_pattern"},
      {R"({"structured_outputs": {"json": {}, "disable_any_whitespace": true}})",
       "structured_outputs.disable_any_whitespace"},
      {R"({"structured_outputs": {"json": {}, "regex": "a"}})", "structured_outputs.json"},
      {R"({"guided_jsn": {"const": 1}})", "guided_jsn"},
      {R"({"guided_json": {}, "guided_whitespace_pattern": " "})", "guided_whitespace_pattern"},
      {R"({"guided_json": {}, "structured_outputs": {"regex": "a"}})", "guided_json"},
  };
  for (const auto& [body, field] : wrong) EXPECT_EQ(WrongForm(body), field) << body;
  EXPECT_EQ(Form(R"({"structured_outputs": {"regex": "a", "disable_fallback": true,
                      "disable_any_whitespace": false}})")
                .regex(),
            "a");
  EXPECT_EQ(Form(R"({"guided_regex": "a", "guided_decoding_backend": "xgrammar",
                      "guided_json": null})")
                .regex(),
            "a");
}

TEST(FormFields, FormsOfVllmInBothSpellings) {
  EXPECT_EQ(Form(R"({"guided_json": "{}"})").json_schema(), "{}");
  EXPECT_EQ(Form(R"({"guided_json": {"a": 1}})").json_schema(), R"({"a":1})");
  EXPECT_EQ(Form(R"({"guided_regex": "x"})").regex(), "x");
  EXPECT_EQ(Form(R"({"guided_grammar": "g"})").grammar(), "g");
  EXPECT_THAT(Form(R"({"guided_choice": ["a", "b"]})").choice().texts(), ElementsAre("a", "b"));
  EXPECT_EQ(Form(R"({"structured_outputs": {"json": {}}})").json_schema(), "{}");
  EXPECT_EQ(Form(R"({"structured_outputs": {"regex": "x"}})").regex(), "x");
  EXPECT_EQ(Form(R"({"structured_outputs": {"grammar": "g"}})").grammar(), "g");
  EXPECT_THAT(Form(R"({"structured_outputs": {"choice": ["a"]}})").choice().texts(),
              ElementsAre("a"));
  EXPECT_TRUE(Form(R"({"structured_outputs": {"json_object": true}})").has_json_object());
}

TEST(FormFields, FormsOfLlamaServer) {
  EXPECT_EQ(Form(R"({"grammar": "root ::= \"a\""})").grammar(), "root ::= \"a\"");
  EXPECT_EQ(Form(R"({"json_schema": {"const": 1}})").json_schema(), R"({"const":1})");
  EXPECT_EQ(WrongForm(R"({"json_schema": 3})"), "json_schema");
}

TEST(FormFields, TwoFormsAreOneTooMany) {
  EXPECT_EQ(WrongForm(R"({"guided_regex": "x", "guided_grammar": "g"})"), "guided_json");
  EXPECT_EQ(WrongForm(R"({"grammar": "x", "json_schema": {}})"), "json_schema");
  EXPECT_EQ(WrongForm(R"({"guided_regex": "x", "grammar": "x"})"), "json_schema");
  EXPECT_EQ(WrongForm(R"({"response_format": {"type": "json_object"}, "guided_regex": "x"})"),
            "guided_json");
  EXPECT_EQ(WrongForm(R"({"structured_outputs": {"structural_tag": "x"}})"),
            "structured_outputs.structural_tag");
}

TEST(FormFields, ASchemaStandsInsideOrBesideItsType) {
  const auto typed = [](const char* format, bool schema_is_inside) {
    const Json json = Json::parse(format);
    JsonFields fields(json, "text.format");
    v1::GenerateRequest request;
    ReadTypedForm(fields, schema_is_inside, request);
    const auto violations = FieldViolations(fields.status());
    return violations.empty() ? request.response_format().json_schema() : violations[0].field;
  };
  const char* const inside = R"({"type": "json_schema", "json_schema": {"schema": {"a": 1}}})";
  const char* const beside = R"({"type": "json_schema", "name": "n", "schema": {"a": 1}})";
  EXPECT_EQ(typed(inside, true), R"({"a":1})");
  EXPECT_EQ(typed(beside, false), R"({"a":1})");
  EXPECT_EQ(typed(beside, true), "text.format.json_schema");
  EXPECT_EQ(typed(inside, false), "text.format.json_schema");
  EXPECT_EQ(typed(R"({"type": "json_schema", "name": "n"})", false), "text.format.schema");
  EXPECT_EQ(typed(R"({"type": "json_schema", "schema": 3})", false), "text.format.schema");
}

}  // namespace
}  // namespace baton
