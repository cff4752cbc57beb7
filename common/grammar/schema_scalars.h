// The part of schema_check.h that is about strings and numbers, and what both parts share.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "common/grammar/schema_check.h"

namespace baton {

using SchemaJson = nlohmann::ordered_json;  // properties come in the order of the schema
using SchemaTypes = std::vector<std::string>;

inline constexpr int64_t kMaxSchemaCount = std::numeric_limits<int32_t>::max();

// The pointer of the member `key` of what `pointer` points to.
std::string ChildPointer(absl::string_view pointer, absl::string_view key);

// INVALID_ARGUMENT: what is at `pointer` has this fault, or is not supported for this reason.
absl::Status SchemaFault(absl::string_view pointer, absl::string_view what);
absl::Status SchemaNotSupported(absl::string_view pointer, absl::string_view why);

// The count that a keyword such as minItems gives; `unset` without the keyword.
absl::StatusOr<int64_t> SchemaCount(const SchemaJson& schema, const char* keyword,
                                    const std::string& pointer, int64_t unset);

// Add to `out` what XGrammar is to read of the keywords about strings, and about integers and
// numbers. CheckString adds the client's pattern, and what it repeats, to `checked`.
absl::Status CheckString(const SchemaJson& schema, const std::string& pointer, SchemaJson& out,
                         CheckedSchema& checked);
absl::Status CheckNumber(const SchemaJson& schema, const SchemaTypes& types,
                         const std::string& pointer, SchemaJson& out);

}  // namespace baton
