#include "common/grammar/schema_check.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/status_macros.h"
#include "common/grammar/schema_disjoint.h"
#include "common/grammar/schema_finite.h"
#include "common/grammar/schema_keywords.h"
#include "common/grammar/schema_scalars.h"
#include "common/grammar/schema_text.h"

namespace baton {
namespace {

using Json = SchemaJson;

constexpr const char* kTypes[] = {"object",  "array",   "string", "number",
                                  "integer", "boolean", "null"};

bool HasType(const Json& value, absl::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
}

// The keyword that decides how XGrammar reads a schema, which then ignores all others.
absl::string_view DecidingKeyword(const Json& schema) {
  for (const char* keyword : {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"}) {
    if (schema.contains(keyword)) return keyword;
  }
  return "type";
}

// The one type that all keywords of a schema without "type" are about; "" if there is none.
absl::string_view ImpliedType(const Json& schema) {
  for (const char* type : kTypes) {
    bool about_all = false;
    for (const auto& [name, value] : schema.items()) {
      const SchemaKeyword& keyword = *FindSchemaKeyword(name);
      if (keyword.support != KeywordSupport::kEnforced || keyword.note[0] == '\0') continue;
      about_all = IsAbout(keyword, type);
      if (!about_all) break;
    }
    if (about_all) return type;
  }
  return "";
}

// NOLINTNEXTLINE(bugprone-exception-escape): what the destructor of JSON throws only when broken
class SchemaChecker {
 public:
  absl::StatusOr<CheckedSchema> Check(absl::string_view text);

 private:
  using Types = SchemaTypes;

  // Each returns what XGrammar is to read in the place of `schema`.
  absl::StatusOr<Json> Node(const Json& schema, const std::string& pointer);
  absl::StatusOr<Json> Typed(const Json& schema, const std::string& pointer);
  absl::StatusOr<Json> Values(const Json& schema, absl::string_view keyword,
                              const std::string& pointer);
  absl::StatusOr<Json> Nodes(const Json& schemas, const std::string& pointer);
  absl::StatusOr<Json> NamedNodes(const Json& schemas, const std::string& pointer);

  // Each of `schemas` excludes the others, so that an answer valid by any is valid by one alone.
  absl::Status CheckDisjoint(const Json& schemas, const std::string& pointer) const;

  // The named properties of an object. Where `any_others`, one that "required" alone names is any
  // value.
  absl::StatusOr<Json> Properties(const Json& schema, const std::string& pointer, bool any_others);
  // Each adds to `out` what it makes of the keywords about values of one type.
  absl::Status Object(const Json& schema, const std::string& pointer, Json& out);
  absl::Status Array(const Json& schema, const std::string& pointer, Json& out);

  static absl::StatusOr<Types> TypesOf(const Json& schema, const std::string& pointer);
  static absl::Status CheckKeywords(const Json& schema, const std::string& pointer);
  absl::Status CheckReferences() const;

  // XGrammar takes two schemas for one that differ only in a property's name or a constant's key
  // such as "title". A member that it ignores keeps them apart.
  // tests/planted_bugs: schemas_taken_for_one
  void KeepApart(Json& schema) { schema["x-apart"] = schemas_apart_++; }

  Json schema_;                                                  // the whole
  std::set<std::string> pointers_;                               // JSON pointers of all schemas
  std::vector<std::pair<std::string, std::string>> references_;  // from where, to where
  CheckedSchema checked_;
  int64_t schemas_apart_ = 0;
};

absl::Status SchemaChecker::CheckKeywords(const Json& schema, const std::string& pointer) {
  const absl::string_view deciding = DecidingKeyword(schema);
  for (const auto& [name, value] : schema.items()) {
    const SchemaKeyword* keyword = FindSchemaKeyword(name);
    const std::string at = ChildPointer(pointer, name);
    if (keyword == nullptr) return SchemaNotSupported(at, "it is not a known keyword");
    if (name == "uniqueItems" && value == false) continue;
    if (keyword->support == KeywordSupport::kRefused) return SchemaNotSupported(at, keyword->note);
    if ((name == "$id" || name == "id") && !pointer.empty()) {
      return SchemaNotSupported(at, "only the whole schema may have it");
    }
    const bool types_values = name == "type" && (deciding == "const" || deciding == "enum");
    if (keyword->support == KeywordSupport::kAnnotation || name == deciding || types_values ||
        name == "$defs" || name == "definitions") {
      continue;
    }
    // tests/planted_bugs: schema_keyword_beside_ignored
    if (deciding != "type") {
      return SchemaNotSupported(
          at, absl::StrCat("it cannot be combined with ", deciding, "; use one of them"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> SchemaChecker::Node(const Json& schema, const std::string& pointer) {
  pointers_.insert("#" + pointer);
  if (schema == true) return Json::object();
  if (schema == false) return SchemaNotSupported(pointer, "no answer can match it");
  if (!schema.is_object()) return SchemaFault(pointer, "is neither an object nor a boolean");
  BATON_RETURN_IF_ERROR(CheckKeywords(schema, pointer));

  const std::string deciding(DecidingKeyword(schema));
  const std::string at = ChildPointer(pointer, deciding);
  Json out = Json::object();
  if (deciding == "$ref") {
    if (!schema["$ref"].is_string()) return SchemaFault(at, "is not a string");
    references_.emplace_back(at, schema["$ref"].get<std::string>());
    out["$ref"] = schema["$ref"];
  } else if (deciding == "const" || deciding == "enum") {
    BATON_ASSIGN_OR_RETURN(out, Values(schema, deciding, pointer));
  } else if (deciding == "anyOf" || deciding == "allOf") {
    if (deciding == "allOf" && schema[deciding].size() != 1) {
      return SchemaNotSupported(at, "it must have exactly one schema; merge its schemas into one");
    }
    BATON_ASSIGN_OR_RETURN(out[deciding], Nodes(schema[deciding], at));
  } else if (deciding == "oneOf") {
    BATON_ASSIGN_OR_RETURN(out["anyOf"], Nodes(schema[deciding], at));
    BATON_RETURN_IF_ERROR(CheckDisjoint(schema[deciding], at));
  } else {
    BATON_ASSIGN_OR_RETURN(out, Typed(schema, pointer));
  }
  for (const char* keyword : {"$defs", "definitions"}) {
    if (!schema.contains(keyword)) continue;
    BATON_ASSIGN_OR_RETURN(out[keyword],
                           NamedNodes(schema[keyword], ChildPointer(pointer, keyword)));
  }
  return out;
}

absl::StatusOr<Json> SchemaChecker::Nodes(const Json& schemas, const std::string& pointer) {
  if (!schemas.is_array() || schemas.empty())
    return SchemaFault(pointer, "is not an array with schemas");
  Json out = Json::array();
  for (size_t i = 0; i < schemas.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(Json node, Node(schemas[i], absl::StrCat(pointer, "/", i)));
    out.push_back(std::move(node));
  }
  return out;
}

absl::Status SchemaChecker::CheckDisjoint(const Json& schemas, const std::string& pointer) const {
  for (size_t i = 0; i < schemas.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      // tests/planted_bugs: schema_one_of_not_compared
      if (AreDisjoint(schemas[i], schemas[j], schema_)) continue;
      return SchemaNotSupported(
          pointer, absl::StrCat("its schemas ", j, " and ", i,
                                " may both be valid; give them different types, or a required "
                                "property with different constants, or use anyOf"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> SchemaChecker::NamedNodes(const Json& schemas, const std::string& pointer) {
  if (!schemas.is_object()) return SchemaFault(pointer, "is not an object");
  Json out = Json::object();
  for (const auto& [name, schema] : schemas.items()) {
    BATON_ASSIGN_OR_RETURN(out[name], Node(schema, ChildPointer(pointer, name)));
  }
  return out;
}

absl::StatusOr<SchemaChecker::Types> SchemaChecker::TypesOf(const Json& schema,
                                                            const std::string& pointer) {
  Types types;
  if (!schema.contains("type")) return types;
  const std::string at = ChildPointer(pointer, "type");
  const Json listed = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
  for (const Json& type : listed) {
    if (!type.is_string() || std::find(std::begin(kTypes), std::end(kTypes),
                                       type.get<std::string>()) == std::end(kTypes)) {
      return SchemaFault(at, absl::StrCat("is not one or more of ", absl::StrJoin(kTypes, ", ")));
    }
    types.push_back(type.get<std::string>());
  }
  if (types.empty()) return SchemaFault(at, "is empty");
  return types;
}

absl::StatusOr<Json> SchemaChecker::Values(const Json& schema, absl::string_view keyword,
                                           const std::string& pointer) {
  const std::string at = ChildPointer(pointer, keyword);
  const Json& given = schema[std::string(keyword)];
  const Json values = keyword == "enum" ? given : Json::array({given});
  if (!values.is_array() || values.empty()) return SchemaFault(at, "is not an array with values");
  BATON_ASSIGN_OR_RETURN(const Types types, TypesOf(schema, pointer));
  for (const Json& value : values) {
    bool fits = types.empty();
    for (const std::string& type : types) fits |= HasType(value, type);
    if (!fits) {
      return SchemaFault(
          at, absl::StrCat("has a value that is of no type of ", ChildPointer(pointer, "type")));
    }
  }
  Json out = {{std::string(keyword), given}};
  KeepApart(out);
  return out;
}

absl::StatusOr<Json> SchemaChecker::Typed(const Json& schema, const std::string& pointer) {
  BATON_ASSIGN_OR_RETURN(Types types, TypesOf(schema, pointer));
  if (const absl::string_view implied = ImpliedType(schema); types.empty() && !implied.empty()) {
    types.emplace_back(implied);
  }
  for (const auto& [name, value] : schema.items()) {
    const SchemaKeyword& keyword = *FindSchemaKeyword(name);
    if (keyword.support != KeywordSupport::kEnforced || keyword.note[0] == '\0') continue;
    bool about_one = false;
    for (const std::string& type : types) about_one |= IsAbout(keyword, type);
    if (!about_one) {
      return SchemaNotSupported(ChildPointer(pointer, name),
                                absl::StrCat("it needs a type beside it: ", keyword.note));
    }
  }
  Json out = Json::object();
  if (types.empty()) return out;
  out["type"] = types.size() == 1 ? Json(types[0]) : Json(types);
  const auto has = [&](const char* type) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  if (has("object")) BATON_RETURN_IF_ERROR(Object(schema, pointer, out));
  if (has("array")) BATON_RETURN_IF_ERROR(Array(schema, pointer, out));
  if (has("string")) BATON_RETURN_IF_ERROR(CheckString(schema, pointer, out, checked_));
  if (has("integer") || has("number")) {
    BATON_RETURN_IF_ERROR(CheckNumber(schema, types, pointer, out));
  }
  return out;
}

absl::StatusOr<Json> SchemaChecker::Properties(const Json& schema, const std::string& pointer,
                                               bool any_others) {
  const std::string at = ChildPointer(pointer, "properties");
  BATON_ASSIGN_OR_RETURN(Json properties,
                         NamedNodes(schema.value("properties", Json::object()), at));
  const std::string required_at = ChildPointer(pointer, "required");
  const Json required = schema.value("required", Json::array());
  if (!required.is_array()) return SchemaFault(required_at, "is not an array");
  for (const Json& name : required) {
    if (!name.is_string()) return SchemaFault(required_at, "has a name that is not a string");
    if (properties.contains(name.get<std::string>())) continue;
    if (!any_others) {
      return SchemaNotSupported(required_at, "it has a name that is missing in properties");
    }
    properties[name.get<std::string>()] = Json::object();
  }
  for (const auto& [name, property] : properties.items()) {
    for (const char byte : name) {
      if (byte == '"' || byte == '\\' || static_cast<uint8_t>(byte) < 0x20) {
        return SchemaNotSupported(ChildPointer(at, name),
                                  "its name has characters that JSON escapes");
      }
    }
  }
  return properties;
}

absl::Status SchemaChecker::Object(const Json& schema, const std::string& pointer, Json& out) {
  const Json given = schema.value("additionalProperties", Json(true));
  const bool any_others = given == true || given == Json::object();
  BATON_ASSIGN_OR_RETURN(const Json properties, Properties(schema, pointer, any_others));
  // An object with named properties has no others: a key can be written in several ways, and an
  // answer could say a named one again.
  const bool unsaid = !schema.contains("additionalProperties");
  // tests/planted_bugs: schema_object_left_open
  const bool closed = given == false || (any_others && !properties.empty()) ||
                      (unsaid && schema.contains("properties"));
  if (!closed && !properties.empty()) {
    return SchemaNotSupported(ChildPointer(pointer, "additionalProperties"),
                              "it cannot be combined with properties; set it to false");
  }
  if (closed || given == true) {
    out["additionalProperties"] = !closed;
  } else {
    BATON_ASSIGN_OR_RETURN(out["additionalProperties"],
                           Node(given, ChildPointer(pointer, "additionalProperties")));
  }
  if (!properties.empty() || schema.contains("properties")) out["properties"] = properties;
  if (schema.contains("required")) out["required"] = schema["required"];
  BATON_ASSIGN_OR_RETURN(const int64_t least, SchemaCount(schema, "minProperties", pointer, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t most,
                         SchemaCount(schema, "maxProperties", pointer, kMaxSchemaCount));
  if (least > 1 && !closed) {
    return SchemaNotSupported(ChildPointer(pointer, "minProperties"),
                              "an answer could repeat a key; name the properties");
  }
  if (least > 0) out["minProperties"] = least;
  if (most < kMaxSchemaCount) out["maxProperties"] = most;
  KeepApart(out);
  return absl::OkStatus();
}

absl::Status SchemaChecker::Array(const Json& schema, const std::string& pointer, Json& out) {
  // Before draft 2020-12 an array in "items" said what "prefixItems" says now.
  const bool old = schema.contains("items") && schema["items"].is_array();
  const char* first = old ? "items" : "prefixItems";
  const char* others = old ? "additionalItems" : "items";
  for (const char* unread : {"prefixItems", "additionalItems"}) {
    if (schema.contains(unread) && unread != absl::string_view(old ? others : first)) {
      return SchemaNotSupported(ChildPointer(pointer, unread), "use prefixItems and items");
    }
  }
  const Json rest = schema.value(others, Json(true));
  if (rest == false) {
    out["items"] = false;
  } else {
    BATON_ASSIGN_OR_RETURN(out["items"], Node(rest, ChildPointer(pointer, others)));
  }
  if (schema.contains(first)) {
    BATON_ASSIGN_OR_RETURN(out["prefixItems"], Nodes(schema[first], ChildPointer(pointer, first)));
  }
  BATON_ASSIGN_OR_RETURN(const int64_t least, SchemaCount(schema, "minItems", pointer, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t most,
                         SchemaCount(schema, "maxItems", pointer, kMaxSchemaCount));
  if (least > 0) out["minItems"] = least;
  if (most < kMaxSchemaCount) out["maxItems"] = most;
  return absl::OkStatus();
}

absl::Status SchemaChecker::CheckReferences() const {
  for (const auto& [from, to] : references_) {
    if (to.find_first_of("~%") != std::string::npos || absl::StrContains(to, "//") ||
        (to.size() > 1 && absl::EndsWith(to, "/"))) {
      return SchemaNotSupported(from,
                                "its pointer has escaped or empty names; rename what it refers to");
    }
    if (pointers_.count(to) == 0) {
      return SchemaNotSupported(from,
                                "it refers to no schema here; use a pointer such as #/$defs/name");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckedSchema> SchemaChecker::Check(absl::string_view text) {
  BATON_ASSIGN_OR_RETURN(schema_, ParseSchemaText(text));
  BATON_ASSIGN_OR_RETURN(const Json checked, Node(schema_, ""));
  BATON_RETURN_IF_ERROR(CheckReferences());
  BATON_RETURN_IF_ERROR(CheckFinite(schema_));
  checked_.text = checked.dump();
  return std::move(checked_);
}

}  // namespace

absl::StatusOr<CheckedSchema> CheckSchema(absl::string_view schema) {
  return SchemaChecker().Check(schema);
}

}  // namespace baton
