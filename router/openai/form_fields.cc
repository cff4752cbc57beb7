#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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

// Sets the form that the field `name` asks for, unless the request has one already.
void SetForm(JsonFields& fields, absl::string_view name, v1::ResponseFormat form,
             v1::GenerateRequest& request) {
  if (!fields.status().ok()) return;
  if (request.has_response_format()) {
    return fields.Fail(name, "cannot be combined with another form of the answer; send one");
  }
  *request.mutable_response_format() = std::move(form);
}

// The forms of vLLM or llama-server: at most one of them and of what `request` has already. Returns
// whether there is one.
bool ReadForms(JsonFields& fields, const FormNames& names, v1::GenerateRequest& request) {
  std::vector<v1::ResponseFormat> forms;
  if (const Json* const schema = fields.Find(names.json)) {
    if (!IsSchema(*schema) && !schema->is_string()) {
      fields.Fail(names.json, "must be a JSON schema");
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
  for (v1::ResponseFormat& form : forms) SetForm(fields, names.json, std::move(form), request);
  return !forms.empty();
}

// Refuses the schema in the field `name`, which a format of this type would not hold the answer to.
void RefuseSchema(JsonFields& format, absl::string_view name, absl::string_view type) {
  if (format.Find(name) == nullptr) return;
  format.Fail(name,
              absl::StrCat("has no effect with the type ", type, "; send the type json_schema"));
}

// The schema of a format of the type json_schema: {"json_schema": {"schema"}}, or {"schema"} if
// it is not inside. Null after an error.
const Json* FindSchema(JsonFields& format, bool is_inside) {
  const Json* schema = nullptr;
  if (!is_inside) {
    schema = format.Find("schema");
  } else if (const Json* const inside = format.Object("json_schema")) {
    schema = JsonFields(*inside).Find("schema");
  } else {
    format.Fail("json_schema", "is missing; send {name, schema}");
  }
  const char* const unread = is_inside ? "schema" : "json_schema";
  if (format.Find(unread) != nullptr) {
    format.Fail(unread, is_inside
                            ? "is not supported here; send json_schema: {name, schema}"
                            : "is not supported here; send the schema as schema, beside type");
  }
  if (schema == nullptr) {
    format.Fail(is_inside ? "json_schema.schema" : "schema",
                "is missing; it has to be the JSON schema of the answer");
  }
  return format.status().ok() ? schema : nullptr;
}

// vLLM's structured_outputs, where every key that is not read would be a rule that is not kept.
void ReadStructuredOutputs(const Json& structured, JsonFields& fields,
                           v1::GenerateRequest& request) {
  constexpr absl::string_view kRead[] = {"json", "json_object", "regex", "grammar", "choice"};
  constexpr absl::string_view kHarmless[] = {"disable_fallback", "backend", "_backend"};
  for (const auto& [name, value] : structured.items()) {
    const auto is_name = [&name = name](absl::string_view known) { return known == name; };
    const bool is_known = std::any_of(std::begin(kRead), std::end(kRead), is_name) ||
                          std::any_of(std::begin(kHarmless), std::end(kHarmless), is_name);
    if (!is_known) fields.Refuse(name, false);
  }
  if (!ReadForms(fields, kStructuredOutputs, request)) {
    fields.Fail("json", "is missing; send json, json_object, regex, grammar or choice");
  }
}

// A name of this kind that is not read is a form that would not be kept.
void RefuseUnknownGuides(JsonFields& fields) {
  constexpr absl::string_view kKnown[] = {"guided_json",   "guided_json_object",
                                          "guided_regex",  "guided_grammar",
                                          "guided_choice", "guided_decoding_backend"};
  for (const auto& [name, value] : fields.object().items()) {
    const auto is_name = [&name = name](absl::string_view known) { return known == name; };
    if (!absl::StartsWith(name, "guided_") || value.is_null()) continue;
    if (std::any_of(std::begin(kKnown), std::end(kKnown), is_name)) continue;
    fields.Fail(name,
                "is not supported; send guided_json, guided_regex, guided_grammar or "
                "guided_choice");
  }
}

}  // namespace

void ReadTypedForm(JsonFields& format, bool schema_is_inside, v1::GenerateRequest& request) {
  const std::string type = format.String("type").value_or("");
  if (type != "text" && type != "json_object" && type != "json_schema") {
    return format.Fail("type", "must be text, json_object or json_schema");
  }
  v1::ResponseFormat form;
  const Json* schema = nullptr;
  if (type == "json_schema") {
    schema = FindSchema(format, schema_is_inside);
    if (schema == nullptr) return;
  } else {
    RefuseSchema(format, "json_schema", type);
    if (type == "text") return RefuseSchema(format, "schema", type);
    schema = format.Find("schema");  // as llama.cpp has it
  }
  if (schema == nullptr) {
    form.mutable_json_object();
  } else if (IsSchema(*schema)) {
    form.set_json_schema(DumpJson(*schema));
  } else {
    const bool is_inside = type == "json_schema" && schema_is_inside;
    format.Fail(is_inside ? "json_schema.schema" : "schema", "must be a JSON schema");
  }
  SetForm(format, "type", std::move(form), request);
}

void ReadFormFields(JsonFields& fields, v1::GenerateRequest& request) {
  if (const Json* const format = fields.Object("response_format")) {
    JsonFields inner(*format, fields.PathOf("response_format"));
    ReadTypedForm(inner, /*schema_is_inside=*/true, request);
    fields.Adopt(inner.status());
  }
  if (const Json* const structured = fields.Object("structured_outputs")) {
    JsonFields inner(*structured, fields.PathOf("structured_outputs"));
    ReadStructuredOutputs(*structured, inner, request);
    fields.Adopt(inner.status());
  }
  RefuseUnknownGuides(fields);
  ReadForms(fields, kGuided, request);
  ReadForms(fields, kLlamaServer, request);
}

}  // namespace baton
