// Finds the parts of a schema whose values never end, such as an object that requires itself.
#pragma once

#include "absl/status/status.h"

#include "common/grammar/schema_scalars.h"

namespace baton {

// INVALID_ARGUMENT names, by its JSON pointer, a part of `schema` that an answer may come to and
// that no finite value matches. REQUIRES: SchemaChecker finds no other fault in the schema; each of
// its references leads to a part of it. A pure function. Takes time linear in the schema, but for
// the search for what references name.
absl::Status CheckFinite(const SchemaJson& schema);

}  // namespace baton
