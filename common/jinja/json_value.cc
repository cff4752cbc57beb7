#include "common/jinja/json_value.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/json_source.h"

namespace baton::jinja {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Value> Convert(Workspace& workspace, const Json& json, int depth);

absl::StatusOr<Value> ConvertArray(Workspace& workspace, const Json& json, int depth) {
  ListBuilder items(workspace);
  for (const Json& item : json) {  // no step: Add counts them
    BATON_ASSIGN_OR_RETURN(const Value value, Convert(workspace, item, depth));
    BATON_RETURN_IF_ERROR(items.Add(value));
  }
  return items.Finish();
}

absl::StatusOr<Value> ConvertObject(Workspace& workspace, const Json& json, int depth) {
  Held held(workspace);
  BATON_RETURN_IF_ERROR(held.Take(json.size() * 2 * sizeof(Value)));
  std::vector<std::pair<Value, Value>> items;
  items.reserve(json.size());
  const Text* source = nullptr;
  for (const auto& [name, member] : json.items()) {
    BATON_RETURN_IF_ERROR(workspace.Step());
    if (name == kJsonSourceKey && member.is_string()) {
      BATON_ASSIGN_OR_RETURN(const Value text,
                             workspace.NewText(member.get_ref<const std::string&>(), false));
      source = text.text();
      continue;
    }
    BATON_ASSIGN_OR_RETURN(const Value key, workspace.NewText(name, false));
    BATON_ASSIGN_OR_RETURN(const Value value, Convert(workspace, member, depth));
    items.emplace_back(key, value);
  }
  return workspace.NewDict(items, source);
}

absl::StatusOr<Value> Convert(Workspace& workspace, const Json& json, int depth) {
  BATON_RETURN_IF_ERROR(workspace.Step());
  if (depth > kMaxContainerDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON is nested deeper than ", kMaxContainerDepth));
  }
  switch (json.type()) {
    case Json::value_t::null:
      return Value{None{}};
    case Json::value_t::boolean:
      return Value{json.get<bool>(), false};
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Value{json.get<double>(), false};
      }
      return Value{json.get<int64_t>(), false};
    case Json::value_t::number_integer:
      return Value{json.get<int64_t>(), false};
    case Json::value_t::number_float:
      return Value{json.get<double>(), false};
    case Json::value_t::string:
      return workspace.NewText(json.get_ref<const std::string&>(), false);
    case Json::value_t::array:
      return ConvertArray(workspace, json, depth + 1);
    case Json::value_t::object:
      return ConvertObject(workspace, json, depth + 1);
    default:
      return absl::InvalidArgumentError("is not JSON");
  }
}

}  // namespace

absl::StatusOr<Value> FromJson(Workspace& workspace, const Json& json) {
  return Convert(workspace, json, 0);
}

}  // namespace baton::jinja
