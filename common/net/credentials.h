// Who may talk to whom: mutual TLS from files, or plain text where that is allowed.
//
// With certificates, both sides of every connection show one signed by --tls-ca and check the
// other's; renewed files are picked up without a restart. Without, only loopback
// may be used, unless --insecure says otherwise.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/support/channel_arguments.h"

#include "common/net/server_flags.h"

namespace baton {

// Immutable; may be used from any thread. (gRPC hands its credentials out as shared pointers.)
class Credentials {
 public:
  // Reads and checks the files, and looks for renewed ones every `reload` (whole seconds, at least
  // 1). INVALID_ARGUMENT names the flag, the file and the remedy.
  static absl::StatusOr<Credentials> Create(const TlsFlags& tls,
                                            absl::Duration reload = absl::Seconds(30));
  // Plain text on loopback only: what Create gives without any flag.
  static Credentials Loopback();

  bool secure() const { return channel_ != nullptr; }

  // PERMISSION_DENIED where `address` is beyond loopback and there are neither certificates nor
  // --insecure. `what` names the flag or the peer.
  absl::Status CheckAddress(absl::string_view what, absl::string_view address) const;

  std::shared_ptr<grpc::ServerCredentials> ForServer() const;
  // Sets in `arguments` what the handshake needs.
  std::shared_ptr<grpc::ChannelCredentials> ForChannel(grpc::ChannelArguments& arguments) const;

 private:
  Credentials() = default;

  bool insecure_ = false;
  std::string server_name_;
  std::shared_ptr<grpc::ServerCredentials> server_;    // null: plain text
  std::shared_ptr<grpc::ChannelCredentials> channel_;  // null: plain text
};

}  // namespace baton
