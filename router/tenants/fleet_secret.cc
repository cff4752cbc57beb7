#include "router/tenants/fleet_secret.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/random.h"
#include "common/base/secret_mode.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr size_t kMaxSecretFileBytes = 2 * kSecretBytes + 16;  // with white space

// ${XDG_STATE_HOME:-$HOME/.local/state}/baton; relative paths do not count.
absl::StatusOr<std::filesystem::path> StateFolder() {
  const std::pair<const char*, const char*> places[] = {{"XDG_STATE_HOME", "baton"},
                                                        {"HOME", ".local/state/baton"}};
  for (const auto& [variable, folder] : places) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value == '/') return std::filesystem::path(value) / folder;
  }
  return absl::NotFoundError("neither XDG_STATE_HOME nor HOME is set to an absolute path");
}

}  // namespace

absl::StatusOr<FleetSecret> FleetSecret::Read(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxSecretFileBytes));
  const absl::string_view digits = absl::StripAsciiWhitespace(text);
  bool good = digits.size() == 2 * kSecretBytes;
  for (const char c : digits) good = good && absl::ascii_isxdigit(static_cast<unsigned char>(c));
  if (good) {
    WarnOfSecretMode("the fleet's secret", path);
    return FleetSecret(absl::HexStringToBytes(digits));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": must hold ", 2 * kSecretBytes,
                   " hexadecimal digits; make it with: openssl rand -hex ", kSecretBytes));
}

absl::StatusOr<FleetSecret> FleetSecret::OfThisUser() {
  BATON_ASSIGN_OR_RETURN(const std::filesystem::path folder, StateFolder());
  const std::filesystem::path path = folder / "fleet-secret";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    std::filesystem::create_directories(folder, error);  // WriteSmallFile says what is wrong
    // If two processes make it at once, the first wins.
    const absl::Status status =
        WriteSmallFile(path.string(), ToHex(RandomBytes(kSecretBytes)) + "\n", {.replace = false});
    if (!status.ok() && !absl::IsAlreadyExists(status)) return status;
  }
  return Read(path.string());
}

FleetSecret FleetSecret::Random() { return FleetSecret(RandomBytes(kSecretBytes)); }

std::string FleetSecret::SaltFor(const Caller& caller, const std::string& client_salt) const {
  const bool shares = !caller.limits.share.empty();
  const std::string& name = shares ? caller.limits.share : caller.tenant;
  // No two of (kind, name, salt) give the same bytes: a name has no zero byte.
  const std::string message =
      absl::StrCat(shares ? "share:" : "tenant:", name, std::string(1, '\0'), client_salt);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), mac, &size);
  BATON_CHECK(done != nullptr, "OpenSSL must compute an HMAC-SHA256");
  return std::string(reinterpret_cast<const char*>(mac), size);
}

}  // namespace baton
