#include "client/certs/certificate_authority.h"

#include <openssl/ec.h>
#include <openssl/rand.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "client/certs/authority_folder.h"
#include "client/certs/certificate_revocation.h"
#include "client/certs/new_files.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kSecretBytes = 32;

using AlternativeNames =
    std::unique_ptr<GENERAL_NAMES,
                    decltype([](GENERAL_NAMES* names) { GENERAL_NAMES_free(names); })>;

void AddName(int kind, const std::string& bytes, GENERAL_NAMES& names) {
  // An IP address is of another type than the rest, with the same layout of bytes.
  ASN1_STRING* value =
      ASN1_STRING_type_new(kind == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
  GENERAL_NAME* name = GENERAL_NAME_new();
  Succeeded(value != nullptr && name != nullptr &&
            ASN1_STRING_set(value, bytes.data(), static_cast<int>(bytes.size())) == 1);
  GENERAL_NAME_set0_value(name, kind, value);
  Succeeded(sk_GENERAL_NAME_push(&names, name) > 0);
}

absl::Status AddDnsName(const std::string& text, GENERAL_NAMES& names) {
  bool good = !text.empty() && text.size() <= 253;
  for (const char c : text) {
    good &= absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '*';
  }
  if (!good) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--dns '", LogSafe(text), "': is not a DNS name; give one such as router.example.org"));
  }
  AddName(GEN_DNS, text, names);
  return absl::OkStatus();
}

absl::Status AddIpAddress(const std::string& text, GENERAL_NAMES& names) {
  const std::unique_ptr<ASN1_OCTET_STRING, decltype(&ASN1_OCTET_STRING_free)> bytes(
      a2i_IPADDRESS(text.c_str()), ASN1_OCTET_STRING_free);
  if (bytes == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--ip '", LogSafe(text), "': is not an IP address; give one such as 10.0.0.7 or fd00::7"));
  }
  AddName(GEN_IPADD,
          std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(bytes.get())),
                      static_cast<size_t>(ASN1_STRING_length(bytes.get()))),
          names);
  return absl::OkStatus();
}

// Adds the extension `nid` with a value in OpenSSL's words.
void AddExtension(int nid, const char* value, X509* issuer, X509& certificate) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, &certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value), X509_EXTENSION_free);
  Succeeded(extension != nullptr && X509_add_ext(&certificate, extension.get(), -1) == 1);
}

PrivateKey NewKey() {
  PrivateKey key(EVP_EC_gen("P-256"));
  Succeeded(key != nullptr);
  return key;
}

// A certificate with what all have: version, serial number, dates, names and the public key.
Certificate NewCertificate(const std::string& common_name, GENERAL_NAMES& names,
                           absl::Duration lifetime, EVP_PKEY& key) {
  Certificate certificate(X509_new());
  Succeeded(certificate != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1);
  std::string serial = RandomBytes(16);
  serial[0] = static_cast<char>((serial[0] & 0x3f) | 0x40);  // positive, and always of 16 bytes
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()),
                static_cast<int>(serial.size()), nullptr),
      BN_free);
  Succeeded(number != nullptr &&
            BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) != nullptr);
  const absl::Time now = absl::Now();
  Succeeded(ASN1_TIME_set(X509_getm_notBefore(certificate.get()),
                          absl::ToTimeT(now - kBackdated)) != nullptr &&
            ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(now + lifetime)) !=
                nullptr);
  // A common name holds 64 bytes; the whole name stands in the SPIFFE id.
  Succeeded(X509_NAME_add_entry_by_NID(
                X509_get_subject_name(certificate.get()), NID_commonName, MBSTRING_UTF8,
                reinterpret_cast<const unsigned char*>(common_name.data()),
                static_cast<int>(std::min<size_t>(common_name.size(), 64)), -1, 0) == 1);
  Succeeded(X509_add1_ext_i2d(certificate.get(), NID_subject_alt_name, &names, 0, 0) == 1);
  Succeeded(X509_set_pubkey(certificate.get(), &key) == 1);
  AddExtension(NID_subject_key_identifier, "hash", nullptr, *certificate);
  return certificate;
}

void Sign(const X509& issuer, EVP_PKEY& issuer_key, X509& certificate) {
  Succeeded(X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer)) == 1);
  AddExtension(NID_authority_key_identifier, "keyid:always", const_cast<X509*>(&issuer),
               certificate);
  Succeeded(X509_sign(&certificate, &issuer_key, EVP_sha256()) > 0);
}

bool Answers(Role role) { return role != Role::kClient && role != Role::kOperator; }

absl::StatusOr<AlternativeNames> NamesOf(const IssueOptions& options, const std::string& id) {
  AlternativeNames names(sk_GENERAL_NAME_new_null());
  Succeeded(names != nullptr);
  AddName(GEN_URI, id, *names);
  const bool loopback =
      Answers(options.role) && options.dns_names.empty() && options.ip_addresses.empty();
  using Texts = std::vector<std::string>;
  for (const std::string& name : loopback ? Texts{"localhost"} : options.dns_names) {
    BATON_RETURN_IF_ERROR(AddDnsName(name, *names));
  }
  for (const std::string& address : loopback ? Texts{"127.0.0.1", "::1"} : options.ip_addresses) {
    BATON_RETURN_IF_ERROR(AddIpAddress(address, *names));
  }
  return names;
}

}  // namespace

absl::Status InitAuthority(const AuthorityOptions& options) {
  // A trust domain is right if it is so in the id of a part.
  const auto id = PeerId({.trust_domain = options.trust_domain, .name = "any"});
  if (!id.ok()) return OfFile("--trust-domain", id.status());
  const PrivateKey key = NewKey();
  const AlternativeNames names(sk_GENERAL_NAME_new_null());
  Succeeded(names != nullptr);
  AddName(GEN_URI, absl::StrCat("spiffe://", options.trust_domain), *names);
  const Certificate certificate =
      NewCertificate(absl::StrCat("Baton ", options.trust_domain), *names, options.lifetime, *key);
  AddExtension(NID_basic_constraints, "critical,CA:TRUE,pathlen:0", nullptr, *certificate);
  AddExtension(NID_key_usage, "critical,keyCertSign,cRLSign", nullptr, *certificate);
  Sign(*certificate, *key, *certificate);
  const std::string secret = absl::BytesToHexString(RandomBytes(kSecretBytes)) + "\n";
  return WriteNewFiles(
      {{.path = PathIn(options.folder, "ca.key"), .contents = ToPem(*key)},
       {.path = PathIn(options.folder, "fleet-secret"), .contents = secret},
       {.path = PathIn(options.folder, "ca.crt"),
        .contents = ToPem(*certificate),
        .mode = kReadableByAll},
       {.path = PathIn(options.folder, "ca.crl"),
        .contents = EmptyRevocationList(*certificate, *key),
        .mode = kReadableByAll},
       {.path = PathIn(options.folder, "issued.txt"), .contents = "", .mode = kReadableByAll}},
      options.force);
}

absl::StatusOr<IssuedCertificate> IssueCertificate(const IssueOptions& options) {
  const std::string role = RoleName(options.role);
  const std::string name = options.name.empty() ? role : options.name;
  if (absl::StrContains(name, '/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("--name '", LogSafe(name),
                     "': has a slash, which a file name cannot contain; remove the slash"));
  }
  BATON_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(options.folder));
  auto id = PeerId({.role = options.role, .trust_domain = authority.trust_domain, .name = name});
  if (!id.ok()) return OfFile("--name", id.status());
  const absl::Time end = ValidUntil(*authority.certificate);
  if (absl::Now() + options.lifetime > end) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--lifetime ", absl::FormatDuration(options.lifetime), ": lasts beyond the expiry date of ",
        PathIn(options.folder, "ca.crt"), ", ", absl::FormatTime(end, absl::UTCTimeZone()),
        "; give a shorter one, or make a new authority"));
  }

  BATON_ASSIGN_OR_RETURN(const AlternativeNames names, NamesOf(options, *id));
  const PrivateKey key = NewKey();
  const Certificate certificate = NewCertificate(name, *names, options.lifetime, *key);
  AddExtension(NID_basic_constraints, "critical,CA:FALSE", nullptr, *certificate);
  AddExtension(NID_key_usage, "critical,digitalSignature", nullptr, *certificate);
  AddExtension(NID_ext_key_usage, Answers(options.role) ? "serverAuth,clientAuth" : "clientAuth",
               nullptr, *certificate);
  Sign(*authority.certificate, *authority.key, *certificate);

  const std::string stem = name == role ? role : absl::StrCat(role, "-", name);
  IssuedCertificate issued{.id = *std::move(id),
                           .certificate_path = PathIn(options.folder, stem + ".crt"),
                           .key_path = PathIn(options.folder, stem + ".key")};
  // First, so that no certificate is there that cannot be revoked by its name.
  BATON_RETURN_IF_ERROR(RecordIssued(options.folder, *certificate, issued.id));
  BATON_RETURN_IF_ERROR(WriteNewFiles(
      {{.path = issued.key_path, .contents = ToPem(*key)},
       {.path = issued.certificate_path, .contents = ToPem(*certificate), .mode = kReadableByAll}},
      options.force));
  return issued;
}

}  // namespace baton
