// The fields of a JSON object that is not trusted.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace baton {

// The field `name` of `object`; null if there is none or `object` is no object.
const nlohmann::json& Field(const nlohmann::json& object, const char* name);
// The same, of a type. INVALID_ARGUMENT names `path`, which is that of `object`, and the field.
absl::StatusOr<std::string> StringField(const nlohmann::json& object, const std::string& path,
                                        const char* name);
absl::StatusOr<const nlohmann::json*> ArrayField(const nlohmann::json& object,
                                                 const std::string& path, const char* name);
// `otherwise` if the field is missing or null.
absl::StatusOr<bool> BoolField(const nlohmann::json& object, const std::string& path,
                               const char* name, bool otherwise);

}  // namespace baton
