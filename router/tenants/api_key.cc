#include "router/tenants/api_key.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/random.h"

namespace baton {
namespace {

constexpr char kPrefix[] = "baton-";
constexpr size_t kRandomBytes = 32;
constexpr size_t kIdBytes = 6;

}  // namespace

std::string MakeApiKey() {
  return absl::StrCat(kPrefix, absl::WebSafeBase64Escape(RandomBytes(kRandomBytes)));
}

bool IsApiKey(absl::string_view text) {
  return text.size() >= kMinApiKeyCharacters && text.size() <= kMaxApiKeyCharacters &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
}

bool IsStrongApiKey(absl::string_view text) {
  return IsApiKey(text) && text.size() >= kMinStrongKeyCharacters &&
         std::set<char>(text.begin(), text.end()).size() >= kMinStrongKeyDifferent;
}

std::string HashApiKey(absl::string_view key) {
  Sha256 hash;
  hash.Update(key);
  return hash.Finish();
}

std::string ApiKeyId(absl::string_view hash) { return ToHex(hash.substr(0, kIdBytes)); }

}  // namespace baton
