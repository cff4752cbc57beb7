#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "router/openai/common_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// A JSON schema, or anything that is one written as a string.
std::string SchemaText(const Json& schema) {
  return schema.is_string() ? schema.get<std::string>() : DumpJson(schema);
}

bool IsSchema(const Json& json) { return json.is_object() || json.is_boolean(); }

// What the fields are called that hold a form. Null: there is none.
struct FormNames {
  const char* json;
  const char* grammar;
  const char* regex = nullptr;
  const char* choice = nullptr;
  const char* json_object = nullptr;
};
constexpr FormNames kStructuredOutputs{"json", "grammar", "regex", "choice", "json_object"};
constexpr FormNames kGuided{"guided_json", "guided_grammar", "guided_regex", "guided_choice",
                            "guided_json_object"};
constexpr FormNames kLlamaServer{"json_schema", "grammar"};

void ReadChoiceTexts(JsonFields& fields, const char* name, v1::ResponseFormat& format) {
  const Json* const choices = fields.Array(name);
  if (choices == nullptr) return;
  format.mutable_choice();
  for (const Json& text : *choices) {
    if (!text.is_string()) return fields.Fail(name, "must be a list of strings");
    format.mutable_choice()->add_texts(text.get<std::string>());
  }
}

// The forms of vLLM or llama-server: at most one of them and of what `request` has already.
void ReadForms(JsonFields& fields, const FormNames& names, v1::GenerateRequest& request) {
  std::vector<v1::ResponseFormat> forms;
  if (const Json* const schema = fields.Find(names.json)) {
    if (!IsSchema(*schema) && !schema->is_string()) {
      return fields.Fail(names.json, "must be a JSON schema");
    }
    forms.emplace_back().set_json_schema(SchemaText(*schema));
  }
  if (const auto grammar = fields.String(names.grammar)) forms.emplace_back().set_grammar(*grammar);
  if (names.regex != nullptr) {
    if (const auto regex = fields.String(names.regex)) forms.emplace_back().set_regex(*regex);
  }
  if (names.choice != nullptr && fields.Find(names.choice) != nullptr) {
    ReadChoiceTexts(fields, names.choice, forms.emplace_back());
  }
  if (names.json_object != nullptr && fields.Bool(names.json_object).value_or(false)) {
    forms.emplace_back().mutable_json_object();
  }
  if (forms.empty()) return;
  if (forms.size() > 1 || request.has_response_format()) {
    return fields.Fail(names.json, "stands beside another form of the answer; send one");
  }
  *request.mutable_response_format() = std::move(forms.front());
}

}  // namespace

void ReadTypedForm(JsonFields& format, bool schema_is_inside, v1::GenerateRequest& request) {
  const std::string type = format.String("type").value_or("");
  if (type == "text") return;
  if (type != "json_object" && type != "json_schema") {
    return format.Fail("type", "must be text, json_object or json_schema");
  }
  std::string path = "schema";  // also of json_object, as llama.cpp has it
  const Json* schema = format.Find(path);
  if (type == "json_schema" && schema_is_inside) {
    const Json* const inside = format.Object("json_schema");
    if (inside == nullptr) return format.Fail("json_schema", "is missing");
    JsonFields fields(*inside, format.PathOf("json_schema"));
    schema = fields.Find("schema");
    path = "json_schema.schema";
  }
  if (schema == nullptr) {
    request.mutable_response_format()->mutable_json_object();
  } else if (IsSchema(*schema)) {
    request.mutable_response_format()->set_json_schema(DumpJson(*schema));
  } else {
    format.Fail(path, "must be a JSON schema");
  }
}

void ReadFormFields(JsonFields& fields, v1::GenerateRequest& request) {
  if (const Json* const format = fields.Object("response_format")) {
    JsonFields inner(*format, fields.PathOf("response_format"));
    ReadTypedForm(inner, /*schema_is_inside=*/true, request);
    fields.Adopt(inner.status());
  }
  if (const Json* const structured = fields.Object("structured_outputs")) {
    JsonFields inner(*structured, fields.PathOf("structured_outputs"));
    inner.Refuse("structural_tag");
    ReadForms(inner, kStructuredOutputs, request);
    fields.Adopt(inner.status());
  }
  ReadForms(fields, kGuided, request);
  ReadForms(fields, kLlamaServer, request);
}

}  // namespace baton
