// The files of TLS: those that are read at once and verified together, and those beside them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/certificates/pem.h"
#include "common/certificates/tls_flags.h"

namespace baton {

// What the files of TlsFlags hold, as text.
struct CertificateTexts {
  // PEM of this process's certificate, then of those that issued it; empty if it has none
  std::string chain;
  std::string key;    // PEM of its private key
  std::string roots;  // PEM of the authorities that peers are signed by

  friend bool operator==(const CertificateTexts&, const CertificateTexts&) = default;
};

// What is known of files that are right.
struct CertificateFacts {
  absl::Time chain_ends = absl::InfiniteFuture();  // when the chain's first certificate expires
  // When the last authority expires; infinite without --tls-ca.
  absl::Time roots_end = absl::InfiniteFuture();
  bool signed_by_root = false;  // whether the chain leads to one of the authorities
  std::string trust_domain;     // trust domain of the SPIFFE id; empty: there is no id
};

// Pure but for the files; thread-safe. INVALID_ARGUMENT names the flag, the file and the remedy.
// A process without a certificate of its own has --tls-ca alone; a server whose certificate is for
// clients only may have none.
absl::StatusOr<CertificateTexts> ReadCertificateFiles(const TlsFlags& tls);
// Checks that the key belongs to the certificate, that each certificate of the chain was issued by
// the next, and that all of them and one of the authorities are valid at `now`.
absl::StatusOr<CertificateFacts> CheckCertificates(const TlsFlags& tls,
                                                   const CertificateTexts& texts, absl::Time now);

// Checks that one of the authorities in the file is valid at `now`.
absl::Status CheckAuthorities(absl::string_view flag, const std::string& path, absl::Time now);

// What the file of --tls-crl holds, as text; empty without the flag.
absl::StatusOr<std::string> ReadRevocationFile(const TlsFlags& tls);
// The lists of `text`; none if it is empty. Checks that each was signed by an authority in the
// other files as they are now, names all that it revokes, and is good at `now`.
absl::StatusOr<std::vector<RevocationList>> CheckRevocationLists(const TlsFlags& tls,
                                                                 const std::string& text,
                                                                 absl::Time now);

}  // namespace baton
