#include "common/tokenizer/json_fields.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

absl::Status NotOfType(const std::string& path, const char* name, const char* type) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": \"", name, "\" is missing or ", type));
}

}  // namespace

const nlohmann::json& Field(const nlohmann::json& object, const char* name) {
  static const nlohmann::json* const kNull = new nlohmann::json();
  if (!object.is_object()) return *kNull;
  const auto found = object.find(name);
  return found == object.end() ? *kNull : *found;
}

absl::StatusOr<std::string> StringField(const nlohmann::json& object, const std::string& path,
                                        const char* name) {
  const nlohmann::json& field = Field(object, name);
  if (!field.is_string()) return NotOfType(path, name, "not a string");
  return field.get<std::string>();
}

absl::StatusOr<const nlohmann::json*> ArrayField(const nlohmann::json& object,
                                                 const std::string& path, const char* name) {
  const nlohmann::json& field = Field(object, name);
  if (!field.is_array()) return NotOfType(path, name, "not an array");
  return &field;
}

absl::StatusOr<bool> BoolField(const nlohmann::json& object, const std::string& path,
                               const char* name, bool otherwise) {
  const nlohmann::json& field = Field(object, name);
  if (field.is_null()) return otherwise;
  if (!field.is_boolean()) return NotOfType(path, name, "neither true nor false");
  return field.get<bool>();
}

}  // namespace baton
