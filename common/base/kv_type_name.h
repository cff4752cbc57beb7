// The names of the KV types, as flags and messages spell them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/base/kv_type.h"

namespace baton {

// Such as "f16".
const char* KvTypeName(KvType type);
// "auto" and the names of all types: what flags take.
std::vector<std::string> KvTypeNamesAndAuto();
// The type with that name. INVALID_ARGUMENT lists the names there are.
absl::StatusOr<KvType> KvTypeFromName(absl::string_view name);

}  // namespace baton
