// The names of the KV cache's types, as flags and the wire spell them.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/backend/tensor.h"

namespace baton {

const char* KvDtypeName(KvDtype dtype);  // such as "f16"
// The type with that name. INVALID_ARGUMENT lists the names there are.
absl::StatusOr<KvDtype> KvDtypeFromName(absl::string_view name);

}  // namespace baton
