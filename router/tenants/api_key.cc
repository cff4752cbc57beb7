#include "router/tenants/api_key.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/hash.h"
#include "common/base/random.h"

namespace baton {
namespace {

constexpr char kPrefix[] = "baton-";
constexpr size_t kRandomBytes = 32;
constexpr size_t kRandomCharacters = 43;  // of 32 bytes in base64url without padding
constexpr size_t kIdBytes = 6;

bool IsBase64Url(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
}

}  // namespace

std::string MakeApiKey() {
  return absl::StrCat(kPrefix, absl::WebSafeBase64Escape(RandomBytes(kRandomBytes)));
}

bool IsApiKey(absl::string_view text) {
  return absl::ConsumePrefix(&text, kPrefix) && text.size() == kRandomCharacters &&
         std::all_of(text.begin(), text.end(), IsBase64Url);
}

std::string HashApiKey(absl::string_view key) {
  Sha256 hash;
  hash.Update(key);
  return hash.Finish();
}

std::string ApiKeyId(absl::string_view hash) { return ToHex(hash.substr(0, kIdBytes)); }

}  // namespace baton
