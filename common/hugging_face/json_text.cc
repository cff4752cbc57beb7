#include "common/hugging_face/json_text.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr char kFetch[] = "fetch the file again";

// The parser itself knows no limits, so they are kept before it runs. Text that is no JSON may pass
// here; the parser refuses it.
absl::Status CheckLimits(absl::string_view text, const std::string& name,
                         const JsonLimits& limits) {
  const auto error = [&name](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", what..., "; ", kFetch));
  };
  if (text.size() > limits.bytes) {
    return error("has ", text.size(), " bytes of JSON, more than ", limits.bytes);
  }
  int depth = 0;
  size_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > limits.depth) return error("has JSON nested deeper than ", limits.depth);
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' || c == ':') {
      ++values;
    }
  }
  if (values > limits.values) return error("has more than ", limits.values, " values of JSON");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Json> ParseJsonObject(absl::string_view text, const std::string& name,
                                     const JsonLimits& limits) {
  BATON_RETURN_IF_ERROR(CheckLimits(text, name, limits));
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string doubled;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second && doubled.empty()) doubled = key;
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", json.is_discarded() ? "is no JSON" : "is no JSON object", "; ", kFetch));
  }
  if (!doubled.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": '", LogSafe(doubled), "' appears twice; ", kFetch));
  }
  return json;
}

const Json* JsonFields::Find(const char* field) const {
  const auto found = object_->find(field);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

JsonFields JsonFields::WithDefaults(const Json& defaults, Json& both) const {
  both = defaults;
  both.update(*object_);
  return JsonFields(both, name_, prefix_);
}

absl::Status JsonFields::Invalid(absl::string_view field, absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(name_, ": ", prefix_, field, " ", what));
}

absl::Status JsonFields::Unsupported(absl::string_view field, absl::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(name_, ": ", prefix_, field, " ", what));
}

absl::StatusOr<const Json*> JsonFields::Get(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return Invalid(field, absl::StrCat("is missing; ", kFetch));
  return value;
}

absl::StatusOr<uint64_t> JsonFields::Count(const char* field, uint64_t min, uint64_t max) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  // Some writers have whole numbers with a point.
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number < static_cast<double>(min) || number > static_cast<double>(max) ||
      number != std::floor(number)) {
    return Invalid(field, absl::StrCat("is no whole number from ", min, " to ", max));
  }
  return static_cast<uint64_t>(number);
}

absl::StatusOr<uint64_t> JsonFields::CountOr(const char* field, uint64_t min, uint64_t max,
                                             uint64_t otherwise) const {
  return Has(field) ? Count(field, min, max) : otherwise;
}

absl::StatusOr<double> JsonFields::Number(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    return Invalid(field, "is no number");
  }
  return value->get<double>();
}

absl::StatusOr<double> JsonFields::NumberOr(const char* field, double otherwise) const {
  return Has(field) ? Number(field) : otherwise;
}

absl::StatusOr<bool> JsonFields::BoolOr(const char* field, bool otherwise) const {
  const Json* value = Find(field);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return Invalid(field, "is neither true nor false");
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonFields::Text(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  if (!value->is_string()) return Invalid(field, "is no string");
  return value->get<std::string>();
}

absl::StatusOr<std::string> JsonFields::TextOr(const char* field,
                                               const std::string& otherwise) const {
  return Has(field) ? Text(field) : otherwise;
}

absl::StatusOr<JsonFields> JsonFields::Object(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  if (!value->is_object()) return Invalid(field, "is no object");
  return JsonFields(*value, name_, absl::StrCat(prefix_, field, "."));
}

absl::StatusOr<std::vector<double>> JsonFields::Numbers(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  std::vector<double> numbers;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_number() && std::isfinite((*value)[i].get<double>());
    if (good) numbers.push_back((*value)[i].get<double>());
  }
  if (!good) return Invalid(field, "is no array of numbers");
  return numbers;
}

absl::StatusOr<std::vector<std::string>> JsonFields::Texts(const char* field) const {
  BATON_ASSIGN_OR_RETURN(const Json* value, Get(field));
  std::vector<std::string> texts;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_string();
    if (good) texts.push_back((*value)[i].get<std::string>());
  }
  if (!good) return Invalid(field, "is no array of strings");
  return texts;
}

}  // namespace baton
