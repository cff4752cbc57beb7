#include "common/certificates/certificate_check.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/access/audit_log.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/certificates/pem.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using grpc::experimental::CertificateVerifier;
using grpc::experimental::ExternalCertificateVerifier;
using CheckRequest = grpc::experimental::TlsCustomVerificationCheckRequest;

struct OpenSslDelete {
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
  void operator()(STACK_OF(X509) * chain) const { sk_X509_free(chain); }  // it borrows
};
template <typename T>
using OpenSsl = std::unique_ptr<T, OpenSslDelete>;

std::vector<std::string> Copy(const std::vector<grpc::string_ref>& names) {
  std::vector<std::string> result;
  for (const grpc::string_ref& name : names) result.emplace_back(name.data(), name.size());
  return result;
}

// Whether a caller's certificate is valid now, meant for callers, and signed by an authority of
// the file. `chain` has further certificates that may lead there.
bool IsSignedBy(const std::string& ca_file, X509& certificate,
                const std::vector<Certificate>& chain) {
  const OpenSsl<X509_STORE> store(X509_STORE_new());
  const OpenSsl<X509_STORE_CTX> context(X509_STORE_CTX_new());
  const OpenSsl<STACK_OF(X509)> others(sk_X509_new_null());
  bool verified = store != nullptr && context != nullptr && others != nullptr &&
                  X509_STORE_load_file(store.get(), ca_file.c_str()) == 1;
  for (const Certificate& other : chain) {
    verified = verified && sk_X509_push(others.get(), other.get()) > 0;
  }
  if (verified) {
    // As gRPC does: an authority in the file is trusted, also one that another has signed.
    X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
    verified = X509_STORE_CTX_init(context.get(), store.get(), &certificate, others.get()) == 1 &&
               X509_STORE_CTX_set_default(context.get(), "ssl_client") == 1 &&
               X509_verify_cert(context.get()) == 1;
  }
  ERR_clear_error();
  return verified;
}

absl::StatusOr<Peer> OnlyPeer(const std::vector<std::string>& uris) {
  if (uris.size() == 1) return ParsePeer(uris.front());
  return absl::InvalidArgumentError(absl::StrCat(
      "it has ", uris.size(),
      " URIs; a certificate must have exactly one, spiffe://<trust domain>/baton/<role>/<name>"));
}

class ServerRoleVerifier final : public ExternalCertificateVerifier {
 public:
  ServerRoleVerifier(RoleSet roles, std::shared_ptr<const PeerTrust> trust)
      : roles_(roles), trust_(std::move(trust)) {}

 private:
  bool Verify(CheckRequest* request, std::function<void(grpc::Status)> callback,
              grpc::Status* result) override {
    // It answers at once, like this verifier.
    if (!host_name_.Verify(request, std::move(callback), result)) return false;
    if (result->ok()) *result = ToGrpcStatus(Check(Copy(request->uri_names())));
    for (const grpc::string_ref& pem : {request->peer_cert(), request->peer_cert_full_chain()}) {
      if (!result->ok()) break;
      *result = ToGrpcStatus(trust_->Check(std::string(pem.data(), pem.size())));
    }
    return true;
  }
  void Cancel(CheckRequest* /*request*/) override {}

  absl::Status Check(const std::vector<std::string>& uris) const {
    // Only clients call routers, whose certificate may be that of any HTTPS server.
    if (roles_.Has(Role::kRouter) && !HasSpiffeId(uris)) return absl::OkStatus();
    const absl::StatusOr<Peer> peer = OnlyPeer(uris);
    if (!peer.ok()) {
      return absl::PermissionDeniedError(
          absl::StrCat("the server's certificate has no valid role: ", peer.status().message()));
    }
    if (roles_.Has(peer->role)) return trust_->CheckDomain(*peer);
    return absl::PermissionDeniedError(
        absl::StrCat("the server has the role ", RoleName(peer->role), " ('", LogSafe(uris.front()),
                     "'), not ", roles_.Names(), "; check its address and its certificate"));
  }

  const RoleSet roles_;
  const std::shared_ptr<const PeerTrust> trust_;
  grpc::experimental::HostNameCertificateVerifier host_name_;
};

// Refuses callers, and writes each into the audit log.
class CallerVerifier : public ExternalCertificateVerifier {
 private:
  // What is wrong with the caller's certificate, whose URIs are `uris`.
  virtual absl::Status Check(const CheckRequest& request,
                             const std::vector<std::string>& uris) const = 0;

  bool Verify(CheckRequest* request, std::function<void(grpc::Status)> /*callback*/,
              grpc::Status* result) final {
    const std::vector<std::string> uris = Copy(request->uri_names());
    const absl::Status status = Check(*request, uris);
    if (!status.ok()) {
      const std::string common_name(request->common_name().data(), request->common_name().size());
      audit_log_.Refused({.method = "connection",
                          .peer = uris.empty() ? common_name : absl::StrJoin(uris, " "),
                          .address = "",
                          .reason = status.message()},
                         SteadyNow());
    }
    *result = ToGrpcStatus(status);
    return true;
  }
  void Cancel(CheckRequest* /*request*/) final {}

  AuditLog audit_log_;
};

class CallerRoleVerifier final : public CallerVerifier {
 public:
  explicit CallerRoleVerifier(RoleSet callers) : callers_(callers) {}

 private:
  absl::Status Check(const CheckRequest& /*request*/,
                     const std::vector<std::string>& uris) const override {
    const absl::StatusOr<Peer> peer = OnlyPeer(uris);
    if (!peer.ok()) return absl::UnauthenticatedError(peer.status().message());
    if (callers_.Has(peer->role)) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat("the role ", RoleName(peer->role),
                                                    " may not call this server, only ",
                                                    callers_.Names(), " may"));
  }

  const RoleSet callers_;
};

class CallerAuthorityVerifier final : public CallerVerifier {
 public:
  CallerAuthorityVerifier(CallerAuthorities authorities, bool optional)
      : authorities_(std::move(authorities)), optional_(optional) {}

 private:
  absl::Status Check(const CheckRequest& request,
                     const std::vector<std::string>& /*uris*/) const override {
    return Check(
        std::string(request.peer_cert().data(), request.peer_cert().size()),
        std::string(request.peer_cert_full_chain().data(), request.peer_cert_full_chain().size()));
  }
  absl::Status Check(const std::string& certificate_pem, const std::string& chain_pem) const {
    if (certificate_pem.empty() && optional_) return absl::OkStatus();
    const auto own = ParseCertificates(certificate_pem);
    if (!own.ok()) return absl::UnauthenticatedError("no certificate");
    const auto chain = ParseCertificates(chain_pem).value_or(std::vector<Certificate>());
    return VerifyCaller(authorities_, *own->front(), chain).status();
  }

  const CallerAuthorities authorities_;
  const bool optional_;
};

// As gRPC writes it; empty if there is none.
std::string SubjectOf(X509& certificate) {
  const OpenSslBuffer text(BIO_new(BIO_s_mem()));
  if (text == nullptr ||
      X509_NAME_print_ex(text.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_RFC2253) < 0) {
    return "";
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

absl::StatusOr<Peer> CallerOf(X509& certificate) {
  const std::vector<std::string> uris = UrisOf(certificate);
  if (HasSpiffeId(uris)) {
    absl::StatusOr<Peer> peer = OnlyPeer(uris);
    if (!peer.ok()) return absl::UnauthenticatedError(peer.status().message());
    return peer;
  }
  return Peer{.role = Role::kClient, .trust_domain = "", .name = SubjectOf(certificate)};
}

absl::StatusOr<Peer> VerifyCaller(const CallerAuthorities& authorities, X509& certificate,
                                  const std::vector<Certificate>& chain) {
  const bool has_ca = !authorities.ca_file.empty();
  if (has_ca && IsSignedBy(authorities.ca_file, certificate, chain)) {
    absl::StatusOr<Peer> peer = OnlyPeer(UrisOf(certificate));
    if (!peer.ok()) return absl::UnauthenticatedError(peer.status().message());
    return peer;
  }
  if (authorities.client_ca_file.empty()) {
    return absl::UnauthenticatedError("no authority of --tls-ca has signed it");
  }
  if (!IsSignedBy(authorities.client_ca_file, certificate, chain)) {
    return absl::UnauthenticatedError(
        has_ca ? "no authority of --tls-ca or --tls-client-ca has signed it"
               : "no authority of --tls-client-ca has signed it");
  }
  absl::StatusOr<Peer> peer = CallerOf(certificate);
  if (peer.ok() && peer->role != Role::kClient) {
    return absl::PermissionDeniedError(
        "an authority of --tls-client-ca may sign client certificates only");
  }
  return peer;
}

std::shared_ptr<CertificateVerifier> ServerRoleCheck(RoleSet roles,
                                                     std::shared_ptr<const PeerTrust> trust) {
  return ExternalCertificateVerifier::Create<ServerRoleVerifier>(roles, std::move(trust));
}

std::shared_ptr<CertificateVerifier> CallerRoleCheck(RoleSet callers) {
  return ExternalCertificateVerifier::Create<CallerRoleVerifier>(callers);
}

std::shared_ptr<CertificateVerifier> CallerAuthorityCheck(const std::string& ca_file,
                                                          const std::string& client_ca_file,
                                                          bool optional) {
  return ExternalCertificateVerifier::Create<CallerAuthorityVerifier>(
      CallerAuthorities{.ca_file = ca_file, .client_ca_file = client_ca_file}, optional);
}

}  // namespace baton
