#include "client/certs/certificate_revocation.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "client/certs/authority_folder.h"
#include "common/access/peer.h"
#include "common/base/log.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kMaxListBytes = 16 << 20;
constexpr size_t kMaxSerialDigits = 40;  // RFC 5280: 20 bytes
constexpr char kIssued[] = "issued.txt";

struct Delete {
  void operator()(ASN1_STRING* value) const { ASN1_STRING_free(value); }  // numbers and times too
  void operator()(BIGNUM* number) const { BN_free(number); }
  void operator()(X509_REVOKED* entry) const { X509_REVOKED_free(entry); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(char* text) const { OPENSSL_free(text); }
};
template <typename T>
using OpenSsl = std::unique_ptr<T, Delete>;

OpenSsl<ASN1_TIME> ToAsn1(absl::Time time) {
  OpenSsl<ASN1_TIME> result(ASN1_TIME_set(nullptr, absl::ToTimeT(time)));
  Succeeded(result != nullptr);
  return result;
}

// In hexadecimal, as `openssl x509 -serial` writes it.
std::string SerialText(const ASN1_INTEGER& serial) {
  const OpenSsl<BIGNUM> number(ASN1_INTEGER_to_BN(&serial, nullptr));
  const OpenSsl<char> text(number == nullptr ? nullptr : BN_bn2hex(number.get()));
  Succeeded(text != nullptr);
  return text.get();
}

// An entry for the certificate with that number, revoked now.
OpenSsl<X509_REVOKED> NewEntry(const std::string& serial) {
  BIGNUM* parsed = nullptr;
  BN_hex2bn(&parsed, serial.c_str());
  const OpenSsl<BIGNUM> number(parsed);
  Succeeded(number != nullptr);
  const OpenSsl<ASN1_INTEGER> integer(BN_to_ASN1_INTEGER(number.get(), nullptr));
  OpenSsl<X509_REVOKED> entry(X509_REVOKED_new());
  Succeeded(entry != nullptr && integer != nullptr &&
            X509_REVOKED_set_serialNumber(entry.get(), integer.get()) == 1 &&
            X509_REVOKED_set_revocationDate(entry.get(), ToAsn1(absl::Now()).get()) == 1);
  return entry;
}

std::string SignList(const X509& authority, EVP_PKEY& key,
                     std::vector<OpenSsl<X509_REVOKED>> entries, absl::Duration lifetime) {
  const RevocationList list(X509_CRL_new());
  const absl::Time now = absl::Now();
  Succeeded(list != nullptr && X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) == 1 &&
            X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(&authority)) == 1 &&
            X509_CRL_set1_lastUpdate(list.get(), ToAsn1(now - kBackdated).get()) == 1 &&
            X509_CRL_set1_nextUpdate(list.get(), ToAsn1(now + lifetime).get()) == 1);
  for (OpenSsl<X509_REVOKED>& entry : entries) {
    Succeeded(X509_CRL_add0_revoked(list.get(), entry.get()) == 1);
    static_cast<void>(entry.release());  // it is the list's now
  }
  X509V3_CTX context{};
  X509V3_set_ctx(&context, const_cast<X509*>(&authority), nullptr, nullptr, list.get(), 0);
  const OpenSsl<X509_EXTENSION> issuer(
      X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always"));
  const OpenSsl<ASN1_INTEGER> number(ASN1_INTEGER_new());
  Succeeded(issuer != nullptr && X509_CRL_add_ext(list.get(), issuer.get(), -1) == 1 &&
            number != nullptr && ASN1_INTEGER_set_int64(number.get(), absl::ToUnixMicros(now)) &&
            X509_CRL_add1_ext_i2d(list.get(), NID_crl_number, number.get(), 0, 0) == 1 &&
            X509_CRL_sort(list.get()) == 1 && X509_CRL_sign(list.get(), &key, EVP_sha256()) > 0);
  return ToPem(*list);
}

// What the file holds; none if there is no file.
absl::StatusOr<std::optional<std::string>> ReadIfThere(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) return std::nullopt;
  return ReadSmallFile(path, kMaxListBytes);
}

// The entries of the authority's list; none if there is no list.
absl::StatusOr<std::vector<OpenSsl<X509_REVOKED>>> ReadEntries(const std::string& path,
                                                               EVP_PKEY& key) {
  std::vector<OpenSsl<X509_REVOKED>> entries;
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadIfThere(path));
  if (!text.has_value()) return entries;
  const auto lists = ParseRevocationLists(*text);
  if (!lists.ok()) return OfFile(path, lists.status());
  X509_CRL* const list = lists->front().get();
  const bool own = lists->size() == 1 && X509_CRL_verify(list, &key) == 1;
  ERR_clear_error();
  if (!own) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is not the revocation list of this authority; restore it from a backup"));
  }
  STACK_OF(X509_REVOKED)* const revoked = X509_CRL_get_REVOKED(list);
  for (int i = 0; i < sk_X509_REVOKED_num(revoked); ++i) {
    entries.emplace_back(X509_REVOKED_dup(sk_X509_REVOKED_value(revoked, i)));
    Succeeded(entries.back() != nullptr);
  }
  return entries;
}

// The numbers of the certificates that were issued to that id.
absl::StatusOr<std::vector<std::string>> SerialsOf(const std::string& folder,
                                                   const std::string& id) {
  const std::string path = PathIn(folder, kIssued);
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxListBytes));
  std::vector<std::string> serials;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (parts.second == id) serials.emplace_back(parts.first);
  }
  if (!serials.empty()) return serials;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": has no certificate for ", id,
                   "; give the holder's --name, or the certificate's serial number, which `openssl "
                   "x509 -serial` prints"));
}

bool IsSerial(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxSerialDigits &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

// The numbers of the certificates that are to be revoked.
absl::StatusOr<std::vector<std::string>> Chosen(const RevokeOptions& options,
                                                const std::string& trust_domain) {
  const absl::StatusOr<Role> role = RoleFromName(options.certificate);
  if (role.ok()) {
    const auto id = PeerId({.role = *role,
                            .trust_domain = trust_domain,
                            .name = options.name.empty() ? options.certificate : options.name});
    if (!id.ok()) return OfFile("--name", id.status());
    return SerialsOf(options.folder, *id);
  }
  if (!options.name.empty()) {
    return absl::InvalidArgumentError("--name: needs a role; give a role, or leave --name out");
  }
  std::vector<std::string> serials;
  if (options.certificate.empty()) return serials;
  if (!IsSerial(options.certificate)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", LogSafe(options.certificate), "': is neither a role nor a serial number of up to ",
        kMaxSerialDigits, " hexadecimal digits; ", role.status().message()));
  }
  serials.push_back(options.certificate);
  return serials;
}

}  // namespace

absl::StatusOr<RevocationReport> RevokeCertificates(const RevokeOptions& options) {
  BATON_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(options.folder));
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> chosen,
                         Chosen(options, authority.trust_domain));
  RevocationReport report{.serials = {},
                          .list_path = PathIn(options.folder, "ca.crl"),
                          .good_until = absl::Now() + options.lifetime};
  BATON_ASSIGN_OR_RETURN(auto entries, ReadEntries(report.list_path, *authority.key));
  for (const std::string& serial : chosen) {
    OpenSsl<X509_REVOKED> entry = NewEntry(serial);
    const ASN1_INTEGER* const number = X509_REVOKED_get0_serialNumber(entry.get());
    const bool listed = std::any_of(entries.begin(), entries.end(), [&](const auto& other) {
      return ASN1_INTEGER_cmp(X509_REVOKED_get0_serialNumber(other.get()), number) == 0;
    });
    if (listed) continue;
    report.serials.push_back(SerialText(*number));
    entries.push_back(std::move(entry));
  }
  const std::string list =
      SignList(*authority.certificate, *authority.key, std::move(entries), options.lifetime);
  BATON_RETURN_IF_ERROR(WriteSmallFile(report.list_path, list, {.mode = kReadableByAll}));
  return report;
}

std::string EmptyRevocationList(const X509& authority, EVP_PKEY& key) {
  return SignList(authority, key, {}, kListLifetime);
}

absl::Status RecordIssued(const std::string& folder, X509& certificate, const std::string& id) {
  const std::string path = PathIn(folder, kIssued);
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> issued, ReadIfThere(path));
  std::string text = issued.value_or("");
  absl::StrAppend(&text, SerialText(*X509_get_serialNumber(&certificate)), " ", id, "\n");
  return WriteSmallFile(path, text, {.mode = kReadableByAll});
}

}  // namespace baton
