#include "router/tools/struct_json.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53

Json ValueJson(const google::protobuf::Value& value) {
  switch (value.kind_case()) {
    case google::protobuf::Value::kNumberValue: {
      const double number = value.number_value();
      const bool is_whole = std::trunc(number) == number && std::abs(number) <= kMaxExactInteger;
      return is_whole ? Json(static_cast<int64_t>(number)) : Json(number);
    }
    case google::protobuf::Value::kStringValue:
      return value.string_value();
    case google::protobuf::Value::kBoolValue:
      return value.bool_value();
    case google::protobuf::Value::kStructValue:
      return JsonOf(value.struct_value());
    case google::protobuf::Value::kListValue: {
      Json list = Json::array();
      for (const auto& item : value.list_value().values()) list.push_back(ValueJson(item));
      return list;
    }
    default:
      return nullptr;
  }
}

}  // namespace

Json JsonOf(const google::protobuf::Struct& fields) {
  std::map<std::string, const google::protobuf::Value*> sorted;
  for (const auto& [name, value] : fields.fields()) sorted[name] = &value;
  Json object = Json::object();
  for (const auto& [name, value] : sorted) object[name] = ValueJson(*value);
  return object;
}

}  // namespace baton
