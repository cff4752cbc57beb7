#include "router/tenants/serve_keys.h"

#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/secret_mode.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"
#include "router/tenants/api_key.h"

namespace baton {
namespace {

constexpr size_t kMaxServeKeysBytes = size_t{64} << 10;

}  // namespace

absl::StatusOr<std::string> ReadServeKeys(const std::string& path) {
  BATON_RETURN_IF_ERROR(CheckPrivateMode(path));
  return ReadSmallFile(path, kMaxServeKeysBytes);
}

absl::StatusOr<KeysFile> ParseServeKeys(const std::string& path, const std::string& content) {
  KeysFile file;
  file.tenants[kServeKeysTenant] = {};
  std::set<std::string> hashes;
  size_t line_number = 0;
  for (const absl::string_view line : absl::StrSplit(content, '\n')) {
    ++line_number;
    const absl::string_view key = absl::StripAsciiWhitespace(line);
    if (key.empty() || absl::StartsWith(key, "#")) continue;
    if (!IsApiKey(key)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", line_number, ": must be a key of ", kMinApiKeyCharacters, " to ",
          kMaxApiKeyCharacters, " printable characters without spaces; make one with: openssl rand",
          " -hex 32"));
    }
    std::string hash = HashApiKey(key);
    if (!hashes.insert(hash).second) continue;
    file.keys.push_back({.hash = std::move(hash), .tenant = kServeKeysTenant});
  }
  if (!file.keys.empty()) return file;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": contains no key; write one key per line, made by: openssl rand -hex 32"));
}

}  // namespace baton
