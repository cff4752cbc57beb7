#include "client/doctor/reach_check.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpc/health/v1/health.grpc.pb.h"

#include "common/base/address.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr int kConnectTimeoutMs = 2000;
constexpr absl::Duration kHealthTimeout = absl::Seconds(5);
constexpr size_t kMostAddresses = 16;

// An error that is empty if the address takes a connection.
std::string ConnectError(const addrinfo& info) {
  const int fd = socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return strerror(errno);
  const absl::Cleanup closed = [fd] { close(fd); };
  if (connect(fd, info.ai_addr, info.ai_addrlen) == 0) return "";
  if (errno != EINPROGRESS) return strerror(errno);
  pollfd waited{.fd = fd, .events = POLLOUT, .revents = 0};
  if (poll(&waited, 1, kConnectTimeoutMs) <= 0) return "no answer within 2 s";
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : strerror(error);
}

std::string NumberText(const addrinfo& info) {
  std::array<char, NI_MAXHOST> host{};
  const int error = getnameinfo(info.ai_addr, info.ai_addrlen, host.data(), host.size(), nullptr, 0,
                                NI_NUMERICHOST);
  return error == 0 ? host.data() : gai_strerror(error);
}

void ResolveAndConnect(const HostPort& address, ReachFacts& facts) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &raw);
  if (error != 0) {
    facts.name_error = gai_strerror(error);
    return;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> infos(raw, freeaddrinfo);
  for (const addrinfo* info = raw; info != nullptr; info = info->ai_next) {
    facts.resolved.push_back(NumberText(*info));
    if (facts.resolved.size() > kMostAddresses) continue;
    const std::string why_not = ConnectError(*info);
    if (why_not.empty()) {
      ++facts.connected;
    } else {
      facts.connect_error = absl::StrCat(facts.resolved.back(), ": ", why_not);
    }
  }
}

absl::Status AskHealth(const ReachTarget& target, const Credentials& credentials) {
  auto channel = MakeChannel(target.address, credentials, target.purpose);
  if (!channel.ok()) return channel.status();
  const auto stub = grpc::health::v1::Health::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kHealthTimeout));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("readiness");
  grpc::health::v1::HealthCheckResponse response;
  if (const grpc::Status status = stub->Check(&context, request, &response); !status.ok()) {
    return FromGrpcStatus(status);
  }
  if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::FailedPreconditionError("the server is not ready");
}

Finding HealthFinding(const ReachFacts& facts) {
  Finding finding{.check = "server.health",
                  .subject = absl::StrCat(facts.target.whose, " ", facts.target.address)};
  const char* how = facts.secure ? "TLS" : "plain text";
  if (facts.health.ok()) {
    finding.found = absl::StrCat("ready, over ", how);
    return finding;
  }
  finding.verdict = Verdict::kFailed;
  finding.found = absl::StrCat("by ", how, ": ", std::string(facts.health.message()));
  switch (facts.health.code()) {
    case absl::StatusCode::kFailedPrecondition:
      finding.verdict = Verdict::kWarning;
      finding.remedy =
          "wait until the server has loaded its model, or check its log for what is missing";
      break;
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
      finding.remedy = "correct the address: another program answers there";
      break;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      finding.remedy = "use a certificate whose role may call this server (docs/security.md)";
      break;
    default:
      finding.remedy =
          absl::StrCat("check the server's log: does the server use ", how,
                       ", does its certificate name this address and the server's role, and is the "
                       "certificate of each side signed by the other's --tls-ca?");
  }
  return finding;
}

}  // namespace

ReachFacts GatherReachFacts(const ReachTarget& target, const Credentials& credentials) {
  ReachFacts facts{.target = target};
  facts.secure = credentials.secure();
  const absl::StatusOr<HostPort> address = ParseHostPort(target.address);
  facts.parsed = address.status();
  if (!address.ok()) return facts;
  ResolveAndConnect(*address, facts);
  if (facts.connected > 0 && target.health) facts.health = AskHealth(target, credentials);
  return facts;
}

Findings ReachFindings(const ReachFacts& facts) {
  const std::string subject = absl::StrCat(facts.target.whose, " ", facts.target.address);
  Findings findings;
  Finding& name = findings.emplace_back(Finding{.check = "name.resolves", .subject = subject});
  if (!facts.parsed.ok() || !facts.name_error.empty()) {
    name.verdict = Verdict::kFailed;
    name.found = facts.parsed.ok() ? facts.name_error : std::string(facts.parsed.message());
    name.remedy = "correct the address, or add the name to DNS or /etc/hosts";
    return findings;
  }
  name.found = absl::StrCat(facts.resolved.size(),
                            facts.resolved.size() == 1 ? " address: " : " addresses: ",
                            absl::StrJoin(facts.resolved, " "));
  Finding& reach = findings.emplace_back(Finding{.check = "server.reachable", .subject = subject});
  reach.found = absl::StrCat("connected to ", facts.connected, " of ", facts.resolved.size(),
                             facts.resolved.size() == 1 ? " address" : " addresses");
  if (facts.connected == 0) {
    reach.verdict = Verdict::kFailed;
    absl::StrAppend(&reach.found, "; ", facts.connect_error);
    reach.remedy = "start the server, correct the address, or open the port in the firewall";
    return findings;
  }
  if (!facts.connect_error.empty()) {
    // A name of several families often leads to a server that listens on one of them.
    absl::StrAppend(&reach.found, "; ", facts.connect_error);
  }
  if (facts.target.health) findings.push_back(HealthFinding(facts));
  return findings;
}

}  // namespace baton
