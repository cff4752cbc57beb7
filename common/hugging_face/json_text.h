// JSON from files that are not trusted: parsed within limits, and read field by field with errors
// that name the file and the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace baton {

struct JsonFileLimits {
  size_t bytes;
  size_t values;  // numbers, strings and so on, and keys; each takes at most 200 bytes and its text
  size_t depth = 32;  // nesting depth of arrays and objects
};

// Parses an object. INVALID_ARGUMENT, with a message that begins with `name`, if the text is too
// large, too deep or no object, or where an object has a key twice.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, const std::string& name,
                                               const JsonFileLimits& limits);

// The fields of an object. Borrows it. A field that is null counts as missing. Errors are
// INVALID_ARGUMENT and name the file and the field.
class JsonFileFields {
 public:
  // `name`: of the file. REQUIRES: `object` is one.
  JsonFileFields(const nlohmann::json& object, std::string name, std::string prefix = "")
      : object_(&object), name_(std::move(name)), prefix_(std::move(prefix)) {}

  bool Has(const char* field) const { return Find(field) != nullptr; }
  std::vector<std::string> Names() const;  // names of all fields, ascending
  // A whole number from `min` to `max`.
  absl::StatusOr<uint64_t> Count(const char* field, uint64_t min, uint64_t max) const;
  absl::StatusOr<uint64_t> CountOr(const char* field, uint64_t min, uint64_t max,
                                   uint64_t otherwise) const;
  // A finite number.
  absl::StatusOr<double> Number(const char* field) const;
  absl::StatusOr<double> NumberOr(const char* field, double otherwise) const;
  absl::StatusOr<bool> BoolOr(const char* field, bool otherwise) const;
  absl::StatusOr<std::string> Text(const char* field) const;
  absl::StatusOr<std::string> TextOr(const char* field, const std::string& otherwise) const;
  absl::StatusOr<JsonFileFields> Object(const char* field) const;
  // The object at `field`, else `otherwise`, which must outlive what is returned.
  absl::StatusOr<JsonFileFields> ObjectOr(const char* field, const nlohmann::json& otherwise) const;
  absl::StatusOr<std::vector<double>> Numbers(const char* field) const;
  absl::StatusOr<std::vector<std::string>> Texts(const char* field) const;
  // The fields, and those of `defaults` that are missing. `both` is to outlive what is returned.
  JsonFileFields WithDefaults(const nlohmann::json& defaults, nlohmann::json& both) const;
  // The field as it is; null if it is missing.
  const nlohmann::json* Find(const char* field) const;

  // "FILE: FIELD WHAT".
  absl::Status Invalid(absl::string_view field, absl::string_view what) const;
  absl::Status Unsupported(absl::string_view field, absl::string_view what) const;

 private:
  absl::StatusOr<const nlohmann::json*> Get(const char* field) const;

  const nlohmann::json* object_;
  std::string name_;
  std::string prefix_;  // path of the object in the file, such as "rope_scaling."
};

}  // namespace baton
