// Whether schemas exclude each other, so that "one of them" and "any of them" say the same.
#pragma once

#include "common/grammar/schema_scalars.h"

namespace baton {

// Whether no value is valid by `a` and by `b`, parts of the schema `root`, which their references
// lead into. It knows schemas of different types, different constants, and objects that some
// property tells apart; false for all others. A pure function.
bool AreDisjoint(const SchemaJson& a, const SchemaJson& b, const SchemaJson& root);

}  // namespace baton
