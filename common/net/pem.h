// Certificates and private keys in PEM, by OpenSSL. Pure functions; thread-safe.
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
};
using OpenSslBuffer = std::unique_ptr<BIO, OpenSslFree>;
using PrivateKey = std::unique_ptr<EVP_PKEY, OpenSslFree>;
using Certificate = std::unique_ptr<X509, OpenSslFree>;

// Every certificate of `pem`, at least one, in its order.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem);
// The first private key of `pem`, which must not be encrypted.
absl::StatusOr<PrivateKey> ParsePrivateKey(const std::string& pem);

// The certificate, or the key in the form of PKCS #8.
std::string ToPem(X509& certificate);
std::string ToPem(EVP_PKEY& key);

// The first and the last moment of a certificate's life.
absl::Time ValidFrom(const X509& certificate);
absl::Time ValidUntil(const X509& certificate);

}  // namespace baton
