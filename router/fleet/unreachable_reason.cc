#include "router/fleet/unreachable_reason.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/base/log.h"

namespace baton {
namespace {

struct Pattern {
  const char* words;  // part of gRPC's message, in lower case
  UnreachableKind kind;
};

// The first pattern that matches counts. gRPC 1.51 returns UNAVAILABLE for each of these.
constexpr Pattern kPatterns[] = {
    {"domain name not found", UnreachableKind::kNoSuchHost},
    {"name or service not known", UnreachableKind::kNoSuchHost},
    {"no address associated", UnreachableKind::kNoSuchHost},
    {"dns server returned answer with no data", UnreachableKind::kNoSuchHost},
    {"empty address list", UnreachableKind::kNoSuchHost},
    {"dns resolution failed", UnreachableKind::kDnsFails},
    {"ssl", UnreachableKind::kTls},
    {"tls", UnreachableKind::kTls},
    {"certificate", UnreachableKind::kTls},
    {"custom verification", UnreachableKind::kTls},
    {"connection refused", UnreachableKind::kRefused},
    {"no such file or directory", UnreachableKind::kNoSocket},
    {"no route to host", UnreachableKind::kNoRoute},
    {"network is unreachable", UnreachableKind::kNoRoute},
    {"host is unreachable", UnreachableKind::kNoRoute},
    {"http1.x server", UnreachableKind::kNotGrpc},
    {"failed parsing http/2", UnreachableKind::kNotGrpc},
    {"settings frame", UnreachableKind::kSilent},
    {"handshake timed out", UnreachableKind::kSilent},
    {"socket closed", UnreachableKind::kClosed},
    {"connection reset", UnreachableKind::kClosed},
    {"broken pipe", UnreachableKind::kClosed},
    {"timed out", UnreachableKind::kTimedOut},
    {"timeout occurred", UnreachableKind::kTimedOut},
};

const char* CauseAndRemedy(UnreachableKind kind) {
  switch (kind) {
    case UnreachableKind::kNoSuchHost:
      return "no such host: DNS has no address for this name; correct the name";
    case UnreachableKind::kDnsFails:
      return "DNS does not answer for this name; check the name servers of this machine";
    case UnreachableKind::kRefused:
      return "connection refused: nothing listens at this address; start the worker, wait for "
             "its model, or correct the address";
    case UnreachableKind::kNoSocket:
      return "there is no such Unix socket; start the worker, or correct the path";
    case UnreachableKind::kNoRoute:
      return "no route to this host; correct the address, or check the network between";
    case UnreachableKind::kTimedOut:
      return "no connection in time: the host is down, or a firewall drops packets; check the "
             "address and the network between";
    case UnreachableKind::kSilent:
      return "the port is open and silent; check that the worker's --listen has this port and "
             "that the worker is not stopped";
    case UnreachableKind::kNotGrpc:
      return "something answers that does not speak gRPC, or speaks it with TLS; check that the "
             "worker's --listen has this port, and give TLS to both sides or to none";
    case UnreachableKind::kClosed:
      return "the connection is closed at once; give TLS to both sides or to none, and check that "
             "the worker's --listen has this port";
    case UnreachableKind::kTls:
      return "the TLS handshake failed; give the worker --tls-cert, --tls-key and --tls-ca of the "
             "same authority";
    case UnreachableKind::kNotAWorker:
      return "a gRPC server answers that is not a Baton worker; correct the address";
    case UnreachableKind::kRouterRefused:
      return "it refuses this router";
    case UnreachableKind::kNotAllowed:
    case UnreachableKind::kOther:
      break;
  }
  return "";
}

// Whether the operator also needs the message itself.
bool NeedsDetail(UnreachableKind kind) {
  switch (kind) {
    case UnreachableKind::kDnsFails:
    case UnreachableKind::kTls:
    case UnreachableKind::kNotAWorker:
    case UnreachableKind::kRouterRefused:
      return true;
    default:
      return false;
  }
}

// Returns what gRPC's message says of the last address that it tried: without a code and the
// address, which stand before it.
absl::string_view Detail(absl::string_view message) {
  constexpr absl::string_view kLast = "last error: ";
  constexpr size_t kMostBytes = 120;
  if (const size_t at = message.find(kLast); at != absl::string_view::npos) {
    message.remove_prefix(at + kLast.size());
    for (int part = 0; part < 2; ++part) {
      const size_t end = message.find(": ");
      if (end != absl::string_view::npos) message.remove_prefix(end + 2);
    }
  }
  return message.substr(0, kMostBytes);
}

UnreachableKind KindOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return UnreachableKind::kNotAWorker;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted:
      return UnreachableKind::kRouterRefused;
    case absl::StatusCode::kCancelled:  // by the router, which waited for a message
    case absl::StatusCode::kDeadlineExceeded:
      return UnreachableKind::kSilent;
    default:
      break;
  }
  const std::string message = absl::AsciiStrToLower(status.message());
  const auto* const found = std::find_if(
      std::begin(kPatterns), std::end(kPatterns),
      [&](const Pattern& pattern) { return absl::StrContains(message, pattern.words); });
  return found == std::end(kPatterns) ? UnreachableKind::kOther : found->kind;
}

}  // namespace

UnreachableReason ExplainUnreachable(const absl::Status& status) {
  UnreachableReason reason{.kind = KindOf(status), .text = ""};
  reason.text = CauseAndRemedy(reason.kind);
  const std::string detail = LogSafe(Detail(status.message()));
  if (reason.kind == UnreachableKind::kOther) {
    reason.text = absl::StrCat("the call ended with ", absl::StatusCodeToString(status.code()),
                               detail.empty() ? "" : ": ", detail);
  } else if (NeedsDetail(reason.kind) && !detail.empty()) {
    absl::StrAppend(&reason.text, " (", detail, ")");
  }
  return reason;
}

UnreachableReason ExplainNotAllowed(const absl::Status& status) {
  return {.kind = UnreachableKind::kNotAllowed, .text = LogSafe(status.message())};
}

UnreachableReason ExplainSilent() {
  return {.kind = UnreachableKind::kSilent, .text = CauseAndRemedy(UnreachableKind::kSilent)};
}

}  // namespace baton
