// The types of a KV cache as flags and the wire spell them.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/backend/tensor.h"

namespace baton {

const char* KvDtypeName(KvDtype dtype);  // "f16" and so on
// INVALID_ARGUMENT names what is supported.
absl::StatusOr<KvDtype> KvDtypeFromName(absl::string_view name);

}  // namespace baton
