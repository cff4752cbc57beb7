// Certificates, private keys and revocation lists in PEM, by OpenSSL. Pure functions; thread-safe.
//
// Their errors are INVALID_ARGUMENT and begin with a verb, so that the caller puts the flag and the
// file before them.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

struct OpenSslFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_CRL* list) const { X509_CRL_free(list); }
};
using OpenSslBuffer = std::unique_ptr<BIO, OpenSslFree>;
using PrivateKey = std::unique_ptr<EVP_PKEY, OpenSslFree>;
using Certificate = std::unique_ptr<X509, OpenSslFree>;
using RevocationList = std::unique_ptr<X509_CRL, OpenSslFree>;

// Every certificate of `pem`, at least one, in its order.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem);
// Every revocation list of `pem`, at least one, in its order. Each says until when it is good.
absl::StatusOr<std::vector<RevocationList>> ParseRevocationLists(const std::string& pem);
// The first private key of `pem`, which must not be encrypted.
absl::StatusOr<PrivateKey> ParsePrivateKey(const std::string& pem);

// The URIs among the certificate's alternative names, such as its SPIFFE id, in its order.
std::vector<std::string> UrisOf(X509& certificate);
// Whether one of them is a SPIFFE id, right or wrong.
bool HasSpiffeId(const std::vector<std::string>& uris);

// The certificate, the list, or the key in the form of PKCS #8.
std::string ToPem(X509& certificate);
std::string ToPem(X509_CRL& list);
std::string ToPem(EVP_PKEY& key);

// The first and the last moment of a certificate's life, and of a list's.
absl::Time ValidFrom(const X509& certificate);
absl::Time ValidUntil(const X509& certificate);
absl::Time ValidFrom(const X509_CRL& list);
absl::Time ValidUntil(const X509_CRL& list);

}  // namespace baton
