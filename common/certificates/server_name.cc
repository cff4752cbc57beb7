#include "common/certificates/server_name.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"

#include "common/base/address.h"
#include "common/certificates/pem.h"

namespace baton {
namespace {

// Returns the text of an address in a certificate. Empty if it has neither 4 nor 16 bytes.
std::string AddressText(const ASN1_OCTET_STRING& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const int bytes = ASN1_STRING_length(&address);
  if (bytes != 4 && bytes != 16) return "";
  inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(&address), text, sizeof(text));
  return text;
}

// Returns whether `host` is a name or an address, and no pattern such as *.example.org.
bool IsPlainHost(const std::string& host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == ':';
  });
}

// Returns the hosts that the certificate names.
std::vector<std::string> HostsOf(X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::vector<std::string> hosts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    std::string host;
    if (name->type == GEN_DNS) {
      host.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                  static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      host = AddressText(*name->d.iPAddress);
    }
    if (IsPlainHost(host)) hosts.push_back(std::move(host));
  }
  return hosts;
}

bool IsNamed(X509& certificate, const std::string& host) {
  const bool named = X509_check_ip_asc(&certificate, host.c_str(), 0) == 1 ||
                     X509_check_host(&certificate, host.c_str(), host.size(), 0, nullptr) == 1;
  ERR_clear_error();
  return named;
}

bool IsLoopbackHost(const std::string& host) {
  return IsLoopback(HostPort{.host = host, .port = 1}.ToString());
}

}  // namespace

std::string HostToCall(const std::string& chain, const std::string& host) {
  const auto certificates = ParseCertificates(chain);
  if (!certificates.ok() || IsNamed(*certificates->front(), host)) return host;
  const std::vector<std::string> hosts = HostsOf(*certificates->front());
  const bool loopback_serves = host == "0.0.0.0" || host == "::" || IsLoopbackHost(host);
  for (const bool loopback : {true, false}) {
    if (loopback && !loopback_serves) continue;
    for (const std::string& named : hosts) {
      if (IsLoopbackHost(named) == loopback) return named;
    }
  }
  return host;
}

bool IsPubliclyTrusted(const std::string& chain) {
  const auto certificates = ParseCertificates(chain);
  if (!certificates.ok()) return false;
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(),
                                                                      X509_STORE_free);
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
      X509_STORE_CTX_new(), X509_STORE_CTX_free);
  STACK_OF(X509)* const issuers = sk_X509_new_null();
  bool trusted = store != nullptr && context != nullptr && issuers != nullptr &&
                 X509_STORE_set_default_paths(store.get()) == 1;
  for (const Certificate& certificate : *certificates) {
    trusted = trusted && sk_X509_push(issuers, certificate.get()) > 0;
  }
  trusted =
      trusted &&
      X509_STORE_CTX_init(context.get(), store.get(), certificates->front().get(), issuers) == 1 &&
      X509_STORE_CTX_set_default(context.get(), "ssl_server") == 1 &&
      X509_verify_cert(context.get()) == 1;
  sk_X509_free(issuers);
  ERR_clear_error();
  return trusted;
}

}  // namespace baton
