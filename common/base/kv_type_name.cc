#include "common/base/kv_type_name.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/log.h"

namespace baton {

const char* KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kBf16:
      return "bf16";
    case KvType::kInt8:
      return "int8";
    case KvType::kFp8:
      return "fp8";
    case KvType::kInt4:
      return "int4";
  }
  return "unknown";
}

std::vector<std::string> KvTypeNamesAndAuto() {
  std::vector<std::string> names = {"auto"};
  for (const KvType type : kAllKvTypes) names.emplace_back(KvTypeName(type));
  return names;
}

absl::StatusOr<KvType> KvTypeFromName(absl::string_view name) {
  for (const KvType type : kAllKvTypes) {
    if (name == KvTypeName(type)) return type;
  }
  const auto append_name = [](std::string* names, KvType type) { *names += KvTypeName(type); };
  return absl::InvalidArgumentError(absl::StrCat("KV type '", LogSafe(name.substr(0, 32)),
                                                 "' is not one of ",
                                                 absl::StrJoin(kAllKvTypes, ", ", append_name)));
}

}  // namespace baton
