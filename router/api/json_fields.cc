#include "router/api/json_fields.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/utf16_escapes.h"
#include "common/rpc/limits.h"
#include "router/api/api_error.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 128;

// Looks at the JSON while it is read, and lets nothing more of it be kept once a limit is passed.
// What lies too deep: whoever walks the JSON later does it by recursion. What has too many keys: a
// key is found among those before it in time linear in their number.
class BodyLimits {
 public:
  bool Keep(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (!status_.ok()) return false;
    if (event == Event::object_end || event == Event::array_end) {
      levels_.pop_back();
      return true;
    }
    if (event == Event::key) {
      CountKey(parsed);
      return status_.ok();
    }
    if (!levels_.empty() && levels_.back().is_array) ++levels_.back().count;
    if (event == Event::value) return true;
    levels_.push_back({.is_array = event == Event::array_start});
    if (depth >= kMaxDepth) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("the body is JSON of more than ", kMaxDepth, " levels"));
    }
    return status_.ok();
  }
  const absl::Status& status() const { return status_; }

 private:
  // An object or array that has not ended.
  struct Level {
    bool is_array = false;
    size_t count = 0;   // of its keys or elements so far
    std::string key{};  // of an object: the last
  };

  void CountKey(const Json& key) {
    Level& object = levels_.back();
    const bool fits = ++object.count <= kMaxObjectKeys && ++keys_ <= kMaxJsonKeys;
    if (fits) {
      object.key = key.get<std::string>();
      return;
    }
    const std::string what =
        object.count > kMaxObjectKeys
            ? absl::StrCat("is an object with more than ", kMaxObjectKeys, " keys")
            : absl::StrCat("comes after ", kMaxJsonKeys,
                           " keys, which is all that a body may have");
    const std::string path = Path();
    status_ = path.empty() ? absl::InvalidArgumentError(absl::StrCat("the body ", what))
                           : InvalidParam(path, what);
  }

  // Of the innermost object, such as "tools[1].function".
  std::string Path() const {
    std::string path;
    for (size_t i = 0; i + 1 < levels_.size(); ++i) {
      const Level& level = levels_[i];
      if (level.is_array) {
        absl::StrAppend(&path, "[", level.count - 1, "]");
      } else {
        absl::StrAppend(&path, path.empty() ? "" : ".", level.key.substr(0, kMaxNameBytes));
      }
    }
    return path;
  }

  std::vector<Level> levels_;
  size_t keys_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Json> ParseJsonBody(absl::string_view body) {
  // The library takes a zero byte for the body's end, whatever follows.
  if (const size_t zero = body.find('\0'); zero != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("the body is not valid JSON: byte ", zero + 1, " is zero"));
  }
  // The library tells an error by an exception, or not at all.
  try {
    BodyLimits limits;
    Json json = Json::parse(body.begin(), body.end(),
                            [&](int depth, Json::parse_event_t event, const Json& parsed) {
                              return limits.Keep(depth, event, parsed);
                            });
    if (!limits.status().ok()) return limits.status();
    if (!json.is_object()) return absl::InvalidArgumentError("the body must be a JSON object");
    return json;
  } catch (const Json::parse_error& error) {
    if (const std::string fault = HalfPairFault(body); !fault.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the body ", fault, ": byte ", error.byte));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the body is not valid JSON: byte ", error.byte));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the body is not valid JSON: ", LogSafe(error.what())));
  }
}

JsonFields::JsonFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

std::string JsonFields::PathOf(absl::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", name);
}

void JsonFields::Fail(absl::string_view name, absl::string_view what) {
  if (status_.ok()) status_ = InvalidParam(PathOf(name), what);
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
