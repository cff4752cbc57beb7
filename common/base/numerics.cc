#include "common/base/numerics.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/kv_type_name.h"

namespace baton {

Numerics Numerics::OfCache(const std::string& backend, KvType type) {
  return Numerics(absl::StrCat(backend, "/", KvTypeName(type)));
}

Numerics Numerics::Converted(const Numerics& sender, KvType wire, const Numerics& receiver) {
  return Numerics(absl::StrCat(sender.name_, " over ", KvTypeName(wire), " into ", receiver.name_));
}

bool Numerics::bits_are_equal() const {
  for (const absl::string_view word : absl::StrSplit(name_, ' ')) {
    const std::pair<absl::string_view, absl::string_view> backend_and_type =
        absl::StrSplit(word, absl::MaxSplits('/', 1));
    if (absl::EndsWith(backend_and_type.first, kVaryingNumerics)) return false;
  }
  return true;
}

}  // namespace baton
