#include "common/net/client_key.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/base/small_file.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"

namespace baton {
namespace {

constexpr char kVariable[] = "BATON_API_KEY";
constexpr size_t kMaxKeyBytes = 256;
constexpr size_t kMaxKeyFileBytes = 4096;

// The text from `source`, if it can be a key; it is never part of the error.
absl::StatusOr<std::string> CheckKey(const std::string& source, absl::string_view text) {
  const absl::string_view key = absl::StripAsciiWhitespace(text);
  const bool good = std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!key.empty() && key.size() <= kMaxKeyBytes && good) return std::string(key);
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": contains no API key; it must be one line, as printed by `baton keys new`"));
}

}  // namespace

void AddApiKeyFlag(FlagSet& flags, std::string& file) {
  flags.SetGroup(FlagGroup::kSecurity);
  flags.AddString("api-key-file=FILE", file,
                  "File with the API key for the router; empty: the key in the variable "
                  "BATON_API_KEY");
}

absl::StatusOr<ClientKey> ClientKey::Read(const std::string& file, absl::string_view address,
                                          const Credentials& credentials) {
  const char* variable = std::getenv(kVariable);
  std::string key;
  if (!file.empty()) {
    const absl::StatusOr<std::string> text = ReadSmallFile(file, kMaxKeyFileBytes);
    if (!text.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--api-key-file ", text.status().message()));
    }
    BATON_ASSIGN_OR_RETURN(key, CheckKey(absl::StrCat("--api-key-file ", file), *text));
  } else if (variable != nullptr && *variable != '\0') {
    BATON_ASSIGN_OR_RETURN(key, CheckKey(kVariable, variable));
  } else {
    return ClientKey();
  }
  if (!credentials.CheckAddress("", address).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the API key would go to ", address,
                     " in plain text; connect with TLS (--tls-ca), or allow plain text with "
                     "--insecure on a network that you trust"));
  }
  return ClientKey(std::move(key));
}

void ClientKey::AddTo(grpc::ClientContext& context) const {
  if (!key_.empty()) context.AddMetadata("authorization", Authorization());
}

std::string ClientKey::Authorization() const {
  return key_.empty() ? "" : absl::StrCat("Bearer ", key_);
}

}  // namespace baton
