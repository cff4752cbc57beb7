// Tells who calls the router: by an API key, by a certificate, or by nothing at all on loopback.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server_context.h"

#include "common/base/token_bucket.h"
#include "common/net/metrics.h"
#include "router/tenants/api_keys.h"
#include "router/tenants/caller.h"

namespace baton {

// Thread-safe.
class Door {
 public:
  // What a call shows of its caller.
  struct Shown {
    std::string peer;  // as gRPC names it, such as "ipv4:127.0.0.1:50000"
    bool encrypted = false;
    std::vector<std::string> authorization;       // the values of that header
    std::optional<std::string> certificate_name;  // of a client's certificate that was verified
  };

  // `keys` may be null: no key is known. Who shows neither key nor certificate is refused where
  // `needs_identity`. Borrows `keys` and `metrics`.
  Door(const ApiKeys* keys, bool needs_identity, Metrics& metrics)
      : keys_(keys), needs_identity_(needs_identity), metrics_(metrics) {}

  // Who calls. UNAUTHENTICATED with a reason of ErrorInfo; it is counted by that, and the log has a
  // line for it, without the key. A key counts more than a certificate, and is taken only where
  // nobody else can have read it: with TLS, on loopback and on Unix sockets.
  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context);
  absl::StatusOr<Caller> Identify(const Shown& shown);

 private:
  absl::StatusOr<std::string> TenantOf(const Shown& shown) const;
  absl::StatusOr<std::string> HolderOfKey(const Shown& shown) const;
  void Refused(const Shown& shown, const absl::Status& status);

  const ApiKeys* const keys_;
  const bool needs_identity_;
  Metrics& metrics_;
  absl::Mutex mutex_;
  std::map<std::string, Counter> refusals_ ABSL_GUARDED_BY(mutex_);  // by reason
  TokenBucket lines_ ABSL_GUARDED_BY(mutex_){10, 10};  // of the log: callers can cause any number
};

}  // namespace baton
