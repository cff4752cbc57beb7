// Reads the fields of a JSON object that a client sent, strictly: null is absent, a wrong type or a
// number out of range is an error that names the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

namespace baton {

// INVALID_ARGUMENT says at which byte; a body that is no object is one too. Objects keep the order
// of their keys (schemas and tools are written into prompts in it); of a key that stands twice the
// last counts. At most 128 levels deep, and kMaxJsonKeys keys, of which kMaxObjectKeys in one
// object: the error names that.
absl::StatusOr<nlohmann::ordered_json> ParseJsonBody(absl::string_view body);

// Borrows the object. `path` is the name of the object itself in errors, such as "stream_options";
// empty: the body. The error of the first field that is wrong is kept, and further ones read as
// absent, so that a caller may read all its fields and ask status() once.
class JsonFields {
 public:
  explicit JsonFields(const nlohmann::ordered_json& object, std::string path = "");

  // Null if the field is absent or null.
  const nlohmann::ordered_json* Find(absl::string_view name);
  std::optional<bool> Bool(absl::string_view name);
  // A whole number; 1.0 is one.
  std::optional<int64_t> Integer(absl::string_view name, int64_t least, int64_t most);
  // Finite, and a float's; the range is the router's to check.
  std::optional<double> Number(absl::string_view name);
  std::optional<std::string> String(absl::string_view name);
  // A string that must be there.
  std::string RequiredString(absl::string_view name);
  const nlohmann::ordered_json* Object(absl::string_view name);
  const nlohmann::ordered_json* Array(absl::string_view name);

  // Refuses the field by name with "is not supported", unless it is absent, null, or equal to
  // `harmless`.
  void Refuse(absl::string_view name, const nlohmann::ordered_json& harmless = nullptr);
  // Records that the field `name`, a word for what the object is, is absent or none of `served`,
  // such as "text or image".
  void FailUnserved(absl::string_view name, absl::string_view served);
  // Records an error of the field.
  void Fail(absl::string_view name, absl::string_view what);
  // Keeps `error`, of an object further inside, as if it were one of this object's fields.
  void Adopt(const absl::Status& error);
  // The field's name in errors, such as "stream_options.include_usage".
  std::string PathOf(absl::string_view name) const;

  const nlohmann::ordered_json& object() const { return object_; }
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::ordered_json& object_;
  const std::string path_;
  absl::Status status_;
};

}  // namespace baton
