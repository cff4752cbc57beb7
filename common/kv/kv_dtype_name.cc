#include "common/kv/kv_dtype_name.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

struct DtypeName {
  KvDtype dtype;
  const char* name;
};
constexpr std::array<DtypeName, 5> kDtypes = {{
    {KvDtype::kF32, "f32"},
    {KvDtype::kF16, "f16"},
    {KvDtype::kBf16, "bf16"},
    {KvDtype::kInt8, "int8"},
    {KvDtype::kFp8, "fp8"},
}};

}  // namespace

const char* KvDtypeName(KvDtype dtype) {
  for (const DtypeName& entry : kDtypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "unknown";
}

absl::StatusOr<KvDtype> KvDtypeFromName(absl::string_view name) {
  for (const DtypeName& entry : kDtypes) {
    if (name == entry.name) return entry.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "KV type '", name.substr(0, 32), "' is not supported; f16, bf16, f32, int8 and fp8 are"));
}

}  // namespace baton
