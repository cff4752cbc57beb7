// The JSON of a schema, read.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/grammar/schema_scalars.h"

namespace baton {

// A JSON object that is nested at most kMaxSchemaDepth deep. INVALID_ARGUMENT says why `text` is
// none, or that it has half of a UTF-16 pair, which JSON can write and no answer can have. A pure
// function.
absl::StatusOr<SchemaJson> ParseSchemaText(absl::string_view text);

}  // namespace baton
