#include "common/grammar/schema_text.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/base/utf16_escapes.h"

namespace baton {

absl::StatusOr<SchemaJson> ParseSchemaText(absl::string_view text) {
  using Json = SchemaJson;
  bool too_deep = false;
  bool too_large = false;
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    too_deep |= depth > kMaxSchemaDepth;
    too_large |= event == Json::parse_event_t::value && value.is_number_unsigned() &&
                 value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    return !too_deep;
  };
  Json schema;
  try {
    schema = Json::parse(text.begin(), text.end(), look);
  } catch (const Json::exception& error) {
    const std::string half_pair = HalfPairFault(text);
    if (!half_pair.empty()) return SchemaFault("", half_pair);
    return SchemaFault("", absl::StrCat("is no JSON: ", error.what()));
  }
  if (too_deep)
    return SchemaFault("", absl::StrCat("is nested more than ", kMaxSchemaDepth, " deep"));
  if (too_large) return SchemaFault("", "has an integer of more than 64 bits");
  if (!schema.is_object()) return SchemaFault("", "is no JSON object");
  return schema;
}

}  // namespace baton
