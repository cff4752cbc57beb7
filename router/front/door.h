// Tells who calls the router: by an API key, by a certificate, or by nothing at all on loopback.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"

#include "common/access/audit_log.h"
#include "common/access/peer.h"
#include "common/net/metrics.h"
#include "router/tenants/api_keys.h"
#include "router/tenants/caller.h"

namespace baton {

// Thread-safe.
class Door {
 public:
  // What a call shows of its caller.
  struct Shown {
    std::string peer;                    // as gRPC names it, such as "ipv4:127.0.0.1:50000"
    std::string address_behind_front{};  // the client's, if the peer is the front
    bool encrypted = false;
    // Came through the front or a reverse proxy, so that its client may be on any machine.
    bool proxied = false;
    // The values of that header. All that are not empty must show the same key.
    std::vector<std::string> authorization{};
    // Of a client's certificate that was verified. Empty: an operator's, who is no tenant.
    std::optional<std::string> certificate_name{};
    // Why nobody can tell whose certificate it is, which the front has passed on.
    absl::Status unreadable{};
  };
  // What Shown has of who shows a certificate; nullopt for roles that are no caller's.
  static std::optional<std::string> CertificateName(const Peer& peer);

  struct Options {
    bool needs_identity = false;  // a caller that shows neither key nor certificate is refused
    bool insecure = false;        // as --insecure
  };
  // `keys` may be null: no key is known. Borrows `keys` and `metrics`.
  Door(const ApiKeys* keys, Options options, Metrics& metrics)
      : keys_(keys), options_(options), metrics_(metrics) {}

  // Whether keys are known here, so that one can say who calls.
  bool takes_keys() const { return keys_ != nullptr; }
  // Whether the caller is served if it shows neither key nor certificate. A router that asks nobody
  // who it is serves its own machine so, and a call that came through a proxy is another machine's:
  // it is served only with --insecure and without keys.
  bool ServesUnknown(const Shown& shown) const {
    return !options_.needs_identity && (!shown.proxied || (options_.insecure && !takes_keys()));
  }
  // Who calls `method`, which is for the audit log: "/package.Service/Method". UNAUTHENTICATED with
  // a reason of ErrorInfo; it is counted by that and by the tenant whose key was revoked, and the
  // audit log has a line for it, without the key. A key counts more than a certificate, and is
  // taken only where nobody else can have read it: with TLS, on loopback and on Unix sockets. With
  // --insecure it is taken everywhere, unless it is an operator's.
  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context, absl::string_view method);
  absl::StatusOr<Caller> Identify(const Shown& shown, absl::string_view method);
  // The audit log's line of a caller whose role may not call `method`.
  void RefusedRole(const Peer& peer, const Shown& shown, absl::string_view method,
                   const absl::Status& status);

 private:
  // Fills `tenant`; with an error too, if it is known.
  absl::Status FindTenant(const Shown& shown, std::string& tenant) const;
  absl::Status FindHolderOfKey(const Shown& shown, std::string& tenant) const;
  void Refused(const Shown& shown, absl::string_view method, const std::string& tenant,
               const absl::Status& status);

  const ApiKeys* const keys_;
  const Options options_;
  Metrics& metrics_;
  AuditLog audit_log_;
};

}  // namespace baton
