// Identifies the caller of the router: by an API key, by a certificate, or on loopback by neither.
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
  // The facts of a call that identify its caller.
  struct Shown {
    std::string peer;                    // as gRPC names it, such as "ipv4:127.0.0.1:50000"
    std::string address_behind_front{};  // the client's address, if the peer is the front
    bool encrypted = false;
    // Whether it came through the front or a reverse proxy, so that its client may be anywhere.
    bool proxied = false;
    // The values of the header `authorization`. All that are not empty must show the same key.
    std::vector<std::string> authorization{};
    // The name in a verified client certificate; empty for an operator's, which names no tenant.
    std::optional<std::string> certificate_name{};
    // The error, if the name in a certificate that the front passed on cannot be read.
    absl::Status unreadable{};
  };
  // Returns Shown::certificate_name for the peer; nullopt if its role may not call the router.
  static std::optional<std::string> CertificateName(const Peer& peer);

  struct Options {
    bool needs_identity = false;  // a caller that shows neither key nor certificate is refused
    bool insecure = false;        // as --insecure
  };
  // `keys` may be null: no key is known. Borrows `keys` and `metrics`.
  Door(const ApiKeys* keys, Options options, Metrics& metrics)
      : keys_(keys), options_(options), metrics_(metrics) {}

  // Whether API keys are configured, so that callers can be identified.
  bool takes_keys() const { return keys_ != nullptr; }
  // Whether a caller is served if it shows neither key nor certificate. A router that needs no
  // identity serves callers on its own machine. A call through a proxy counts as another machine's
  // and is served only with --insecure and without keys.
  bool ServesUnknown(const Shown& shown) const {
    return !options_.needs_identity && (!shown.proxied || (options_.insecure && !takes_keys()));
  }
  // Returns the caller of `method` ("/package.Service/Method", for the audit log), or
  // UNAUTHENTICATED with a reason in its ErrorInfo. A refusal is counted by its reason, and by the
  // tenant if its key was revoked, and gets a line in the audit log, without the key. A key takes
  // precedence over a certificate. It is accepted only on connections that cannot be overheard:
  // with TLS, on loopback and on Unix sockets. With --insecure a key is accepted everywhere, unless
  // it is an operator's.
  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context, absl::string_view method);
  absl::StatusOr<Caller> Identify(const Shown& shown, absl::string_view method);
  // Writes the audit log's line for a caller whose role may not call `method`.
  void RefusedRole(const Peer& peer, const Shown& shown, absl::string_view method,
                   const absl::Status& status);

 private:
  // Sets `tenant`, even on an error if the tenant is known.
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
