#include "common/base/prefix_hash.h"

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {

std::string PrefixIdentity(const std::string& weights_digest, const std::string& config_digest,
                           const std::string& numerics) {
  return absl::StrCat(weights_digest, config_digest, numerics);
}

Hash128 PrefixRoot(const std::string& identity, PrefixHashFunction hash) {
  return hash(Hash128{}, identity);
}

Hash128 PrefixLink(const Hash128& parent, absl::Span<const int32_t> page, const std::string& salt,
                   PrefixHashFunction hash) {
  const absl::string_view tokens(reinterpret_cast<const char*>(page.data()),
                                 page.size() * sizeof(int32_t));
  return salt.empty() ? hash(parent, tokens) : hash(parent, absl::StrCat(tokens, salt));
}

uint64_t PrefixWindowPage(uint64_t page, int window) {
  BATON_CHECK(window > 0, "a window has keys");
  const Hash128 name{.high = page, .low = static_cast<uint64_t>(window)};
  return ChainHash(name, absl::string_view()).high;
}

}  // namespace baton
