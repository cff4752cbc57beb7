#include "common/hugging_face/json_text.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/json/json_tree.h"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr char kFetch[] = "fetch the file again";

absl::Status FileError(const std::string& name, const auto&... what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what..., "; fetch the file again"));
}

absl::Status FaultError(const JsonFault& fault, const std::string& name,
                        const JsonFileLimits& limits) {
  switch (fault.kind) {
    case JsonFault::Kind::kDepth:
      return FileError(name, "has JSON nested deeper than ", limits.depth);
    case JsonFault::Kind::kValues:
      return FileError(name, "has more than ", limits.values, " values of JSON");
    case JsonFault::Kind::kRepeatedKey:
      return FileError(name, "'", LogSafe(fault.key), "' appears twice");
    default:
      return FileError(name, "is not JSON: byte ", fault.byte);
  }
}

}  // namespace

absl::StatusOr<Json> ParseJsonObject(absl::string_view text, const std::string& name,
                                     const JsonFileLimits& limits) {
  if (text.size() > limits.bytes) {
    return FileError(name, "has ", text.size(), " bytes of JSON, more than ", limits.bytes);
  }
  JsonFault fault;
  std::optional<Json> json = ParseJson<Json>(
      text, {.depth = limits.depth, .values = limits.values, .unique_keys = true}, fault);
  if (!json.has_value()) return FaultError(fault, name, limits);
  if (!json->is_object()) return FileError(name, "is not a JSON object");
  return *std::move(json);
}

const Json* JsonFileFields::Find(const char* field) const {
  const auto found = object_->find(field);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::vector<std::string> JsonFileFields::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->items()) {
    if (!value.is_null()) names.push_back(name);
  }
  return names;
}

JsonFileFields JsonFileFields::WithDefaults(const Json& defaults, Json& both) const {
  both = defaults;
  both.update(*object_);
  return JsonFileFields(both, name_, prefix_);
}

absl::Status JsonFileFields::Invalid(absl::string_view field, absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(name_, ": ", prefix_, field, " ", what));
}

absl::Status JsonFileFields::Unsupported(absl::string_view field, absl::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(name_, ": ", prefix_, field, " ", what));
}

absl::StatusOr<const Json*> JsonFileFields::Get(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return Invalid(field, "is missing; fetch the file again");
  return value;
}

absl::StatusOr<uint64_t> JsonFileFields::Count(const char* field, uint64_t min,
                                               uint64_t max) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  // Some writers have whole numbers with a point.
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number < static_cast<double>(min) || number > static_cast<double>(max) ||
      number != std::floor(number)) {
    return Invalid(field, absl::StrCat("is not a whole number from ", min, " to ", max));
  }
  return static_cast<uint64_t>(number);
}

absl::StatusOr<uint64_t> JsonFileFields::CountOr(const char* field, uint64_t min, uint64_t max,
                                                 uint64_t otherwise) const {
  return Has(field) ? Count(field, min, max) : otherwise;
}

absl::StatusOr<double> JsonFileFields::Number(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    return Invalid(field, "is not a number");
  }
  return value->get<double>();
}

absl::StatusOr<double> JsonFileFields::NumberOr(const char* field, double otherwise) const {
  return Has(field) ? Number(field) : otherwise;
}

absl::StatusOr<bool> JsonFileFields::BoolOr(const char* field, bool otherwise) const {
  const Json* value = Find(field);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return Invalid(field, "is neither true nor false");
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonFileFields::Text(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  if (!value->is_string()) return Invalid(field, "is not a string");
  return value->get<std::string>();
}

absl::StatusOr<std::string> JsonFileFields::TextOr(const char* field,
                                                   const std::string& otherwise) const {
  return Has(field) ? Text(field) : otherwise;
}

absl::StatusOr<JsonFileFields> JsonFileFields::ObjectOr(const char* field,
                                                        const Json& otherwise) const {
  if (Has(field)) return Object(field);
  return JsonFileFields(otherwise, name_, absl::StrCat(prefix_, field, "."));
}

absl::StatusOr<JsonFileFields> JsonFileFields::Object(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  if (!value->is_object()) return Invalid(field, "is not an object");
  return JsonFileFields(*value, name_, absl::StrCat(prefix_, field, "."));
}

absl::StatusOr<std::vector<double>> JsonFileFields::Numbers(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  std::vector<double> numbers;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_number() && std::isfinite((*value)[i].get<double>());
    if (good) numbers.push_back((*value)[i].get<double>());
  }
  if (!good) return Invalid(field, "is not an array of numbers");
  return numbers;
}

absl::StatusOr<std::vector<std::string>> JsonFileFields::Texts(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  std::vector<std::string> texts;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_string();
    if (good) texts.push_back((*value)[i].get<std::string>());
  }
  if (!good) return Invalid(field, "is not an array of strings");
  return texts;
}

}  // namespace baton
