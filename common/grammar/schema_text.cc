#include "common/grammar/schema_text.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/utf16_escapes.h"
#include "common/json/json_tree.h"

namespace baton {
namespace {

std::string What(const JsonFault& fault, absl::string_view text) {
  if (fault.kind == JsonFault::Kind::kDepth) {
    return absl::StrCat("is nested more than ", kMaxSchemaDepth, " deep");
  }
  if (fault.kind == JsonFault::Kind::kInteger) return "has an integer of more than 64 bits";
  const std::string half_pair = HalfPairFault(text);
  return half_pair.empty() ? absl::StrCat("is not JSON: ", fault.what) : half_pair;
}

}  // namespace

absl::StatusOr<SchemaJson> ParseSchemaText(absl::string_view text) {
  JsonFault fault;
  std::optional<SchemaJson> schema =
      ParseJson<SchemaJson>(text, {.depth = kMaxSchemaDepth, .signed_integers = true}, fault);
  if (!schema.has_value()) return SchemaFault("", What(fault, text));
  if (!schema->is_object()) return SchemaFault("", "is not a JSON object");
  return *std::move(schema);
}

}  // namespace baton
