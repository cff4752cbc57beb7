// The Unix socket of the front, whose statements about its clients the router trusts.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "grpcpp/server_builder.h"

#include "common/access/audit_log.h"
#include "common/certificates/peer_trust.h"
#include "common/net/metrics.h"

namespace baton {

// Gives gRPC the connections of one user, as the kernel reports it, and closes all others at once.
// The access table (common/access/access_table.h) decides by the certificate that the front passes
// on for its client; without one the caller has the role of a client. One thread calls the methods;
// connections are accepted on a separate thread.
class FrontSocket {
 public:
  struct Options {
    std::string path;
    uid_t user = 0;
  };
  // Listens at the path. Replaces a socket there if no process listens on it any more. An error is
  // one line that names the flag, the path and the remedy.
  static absl::StatusOr<std::unique_ptr<FrontSocket>> Listen(const Options& options);
  // Stops accepting, and removes the socket.
  ~FrontSocket();
  FrontSocket(const FrontSocket&) = delete;
  FrontSocket& operator=(const FrontSocket&) = delete;

  // Makes the server of `builder` serve the socket. Borrows `metrics`, which outlive the server.
  // `trust` is the router's own: clients of another trust domain are refused. It is null if the
  // router has no certificate. REQUIRES: the server is destroyed after this.
  void AddTo(grpc::ServerBuilder& builder, Metrics& metrics,
             std::shared_ptr<const PeerTrust> trust);
  // REQUIRES: the server has started. Called once.
  void Start();

 private:
  FrontSocket(const Options& options, int listener, int wake);
  void Loop();
  void AcceptOne();

  const Options options_;
  const int listener_;
  const int wake_;  // readable when the thread is to end
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> door_;
  AuditLog audit_log_;  // for refused connections
  std::thread thread_;
};

}  // namespace baton
