// The files of a certificate authority in a folder, for those that sign with it.
#pragma once

#include <openssl/x509v3.h>
#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/base/check.h"
#include "common/certificates/pem.h"

namespace baton {

// Certificates and revocation lists are valid from this long before they are signed, for machines
// whose clocks are behind, such as by an hour after a wrong change to or from summer time.
inline constexpr absl::Duration kBackdated = absl::Hours(2);
inline constexpr mode_t kReadableByAll = 0644;

inline std::string PathIn(const std::string& folder, absl::string_view file) {
  return std::string(folder) + "/" + std::string(file);
}

// `status` as INVALID_ARGUMENT, with the file before its message.
absl::Status OfFile(const std::string& path, const absl::Status& status);

// For calls of OpenSSL that fail without memory only.
inline void Succeeded(bool ok) { BATON_CHECK(ok, "OpenSSL has no memory"); }

struct Authority {
  Certificate certificate;
  PrivateKey key;
  std::string trust_domain{};
};

// Reads ca.crt and ca.key. INVALID_ARGUMENT names the file and the remedy.
absl::StatusOr<Authority> ReadAuthority(const std::string& folder);

}  // namespace baton
