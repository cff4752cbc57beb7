// Explains in plain words why a worker is not reached.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace baton {

// Causes that an operator removes in different ways.
enum class UnreachableKind {
  kNotAllowed,     // the router may not or cannot call this address
  kNoSuchHost,     // DNS has no address for the name
  kDnsFails,       // DNS does not answer
  kRefused,        // nothing listens
  kNoSocket,       // a Unix socket that does not exist
  kNoRoute,        // the network has no way to the host
  kTimedOut,       // no connection in time
  kSilent,         // connected, and nothing is received
  kNotGrpc,        // another protocol
  kClosed,         // connected, and closed at once
  kTls,            // the handshake of TLS fails
  kNotAWorker,     // a gRPC server of another kind
  kRouterRefused,  // the worker rejects this router
  kOther,
};
inline constexpr int kUnreachableKinds = static_cast<int>(UnreachableKind::kOther) + 1;

struct UnreachableReason {
  UnreachableKind kind = UnreachableKind::kOther;
  std::string text;  // cause and remedy, at most about 300 bytes, without the address
};

// Explains the end of a call that the worker never answered, from gRPC's code and message.
UnreachableReason ExplainUnreachable(const absl::Status& status);
// Explains why no call was made: `status` names the address and the remedy.
UnreachableReason ExplainNotAllowed(const absl::Status& status);
// Explains a connection on which nothing is received.
UnreachableReason ExplainSilent();

}  // namespace baton
