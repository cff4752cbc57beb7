#include "router/api/json_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/utf16_escapes.h"
#include "common/json/json_tree.h"
#include "common/rpc/limits.h"
#include "router/api/api_error.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kBodyLimits = {
    .depth = 128,  // later readers of the JSON are recursive
    .keys = kMaxJsonKeys,
    .object_keys = kMaxObjectKeys,
};

// The parser's own words, without its name for the error and its place, which `byte` has.
std::string SyntaxFaultOf(absl::string_view what) {
  for (const absl::string_view before : {"syntax error ", "] "}) {
    const size_t begin = what.find(before);
    if (begin == absl::string_view::npos) continue;
    what.remove_prefix(begin + before.size());
    break;
  }
  return LogSafe(what);
}

absl::Status BodyError(const JsonFault& fault, absl::string_view body) {
  const auto refuse = [&fault](const auto&... what) {
    return fault.path.empty() ? absl::InvalidArgumentError(absl::StrCat("the body ", what...))
                              : InvalidParam(fault.path, absl::StrCat(what...));
  };
  switch (fault.kind) {
    case JsonFault::Kind::kDepth:
      return absl::InvalidArgumentError(
          absl::StrCat("the body is JSON nested deeper than ", kBodyLimits.depth, " levels"));
    case JsonFault::Kind::kObjectKeys:
      return refuse("is an object with more than ", kMaxObjectKeys, " keys");
    case JsonFault::Kind::kKeys:
      return refuse("comes after ", kMaxJsonKeys, " keys, which is all that a body may have");
    default:
      const std::string half_pair = HalfPairFault(body);
      return absl::InvalidArgumentError(
          half_pair.empty() ? absl::StrCat("the body is not valid JSON at byte ", fault.byte, ": ",
                                           SyntaxFaultOf(fault.what))
                            : absl::StrCat("the body ", half_pair, ": byte ", fault.byte));
  }
}

}  // namespace

absl::StatusOr<Json> ParseJsonBody(absl::string_view body) {
  JsonFault fault;
  std::optional<Json> json = ParseJson<Json>(body, kBodyLimits, fault);
  if (!json.has_value()) return BodyError(fault, body);
  if (!json->is_object()) return absl::InvalidArgumentError("the body must be a JSON object");
  return *std::move(json);
}

JsonFields::JsonFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

std::string JsonFields::PathOf(absl::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", name);
}

void JsonFields::Fail(absl::string_view name, absl::string_view what) {
  if (status_.ok()) status_ = InvalidParam(PathOf(name), what);
}

void JsonFields::FailUnserved(absl::string_view name, absl::string_view served) {
  const Json* const value = Find(name);
  if (value == nullptr) return Fail(name, absl::StrCat("is missing; use ", served));
  std::string sent = value->dump(-1, ' ', false, Json::error_handler_t::replace);
  if (value->is_string()) sent = absl::StrCat("'", sent.substr(1, sent.size() - 2), "'");
  Fail(name, absl::StrCat(sent.substr(0, kMaxNameBytes), " is not served; use ", served));
}

void JsonFields::Adopt(const absl::Status& error) {
  if (status_.ok()) status_ = error;
}

const Json* JsonFields::Find(absl::string_view name) {
  if (!status_.ok()) return nullptr;
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> JsonFields::Bool(absl::string_view name) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, "must be true or false");
  return std::nullopt;
}

std::optional<int64_t> JsonFields::Integer(absl::string_view name, int64_t least, int64_t most) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::string range = absl::StrCat("must be a whole number from ", least, " to ", most);
  double number = 0;
  if (value->is_number()) number = value->get<double>();
  // The bounds are less than 2^53, where a double is exact.
  const bool whole = value->is_number() && number == std::floor(number);
  if (whole && number >= static_cast<double>(least) && number <= static_cast<double>(most)) {
    return static_cast<int64_t>(number);
  }
  Fail(name, value->is_number() ? absl::StrCat(range, ", is ", value->dump()) : range);
  return std::nullopt;
}

std::optional<double> JsonFields::Number(absl::string_view name) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (std::abs(number) <= std::numeric_limits<float>::max()) return number;
  }
  Fail(name, "must be a number");
  return std::nullopt;
}

std::optional<std::string> JsonFields::String(absl::string_view name) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(name, "must be a string");
  return std::nullopt;
}

std::string JsonFields::RequiredString(absl::string_view name) {
  std::optional<std::string> text = String(name);
  if (!text.has_value()) Fail(name, "is missing");
  return std::move(text).value_or("");
}

const Json* JsonFields::Object(absl::string_view name) {
  const Json* const value = Find(name);
  if (value == nullptr || value->is_object()) return value;
  Fail(name, "must be an object");
  return nullptr;
}

const Json* JsonFields::Array(absl::string_view name) {
  const Json* const value = Find(name);
  if (value == nullptr || value->is_array()) return value;
  Fail(name, "must be an array");
  return nullptr;
}

void JsonFields::Refuse(absl::string_view name, const Json& harmless) {
  const Json* const value = Find(name);
  if (value != nullptr && *value != harmless) Fail(name, "is not supported");
}

}  // namespace baton
