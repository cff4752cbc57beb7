#include "common/base/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "common/base/status_macros.h"

namespace baton {
namespace {

absl::Status BadAddress(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("is not an address: ", why, "; write host:port or [v6]:port"));
}

// As ParseHostPort; the error does not repeat the address.
absl::StatusOr<HostPort> ReadHostPort(absl::string_view address) {
  absl::string_view rest = address;
  for (const absl::string_view scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&rest, scheme)) break;
  }
  if (const size_t scheme = rest.find("://"); scheme != absl::string_view::npos) {
    return BadAddress(absl::StrCat("the scheme '", rest.substr(0, scheme), "' is not known"));
  }
  absl::string_view host;
  if (absl::ConsumePrefix(&rest, "[")) {
    const size_t end = rest.find(']');
    if (end == absl::string_view::npos) return BadAddress("']' is missing");
    host = rest.substr(0, end);
    rest.remove_prefix(end + 1);
  } else {
    const size_t colon = rest.rfind(':');
    if (colon == absl::string_view::npos) return BadAddress("the port is missing");
    host = rest.substr(0, colon);
    if (absl::StrContains(host, ':')) {
      return BadAddress("an IPv6 address needs brackets before the port");
    }
    rest.remove_prefix(colon);
  }
  uint32_t port = 0;
  if (!absl::ConsumePrefix(&rest, ":") || rest.empty() || rest.size() > 5 ||
      rest.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(rest, &port) || port > 65535) {
    return BadAddress("the port must be a number from 0 to 65535");
  }
  if (host.empty()) return BadAddress("the host is missing");
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

// The errno of binding a socket to `info`, 0 when it works.
int TryBind(const addrinfo& info, bool reuse_port) {
  const int fd = socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (reuse_port) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  if (info.ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  const bool bound = bind(fd, info.ai_addr, info.ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int error = bound ? 0 : errno;
  close(fd);
  return error;
}

std::string Remedy(int error, absl::string_view flag) {
  switch (error) {
    case EADDRINUSE:
      return absl::StrCat(
          "the port is in use; stop the other process or choose another port (0: any free one) "
          "with ",
          flag);
    case EACCES:
      return absl::StrCat("no permission for this port; choose one above 1023 with ", flag);
    case EADDRNOTAVAIL:
      return absl::StrCat(
          "this machine has no such address; choose one of its own, or 0.0.0.0 for all, with ",
          flag);
    default:
      return absl::StrCat(strerror(error), "; choose another address with ", flag);
  }
}

}  // namespace

std::string HostPort::ToString() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view address) {
  absl::StatusOr<HostPort> parsed = ReadHostPort(address);
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(absl::StrCat("'", address, "' ", parsed.status().message()));
}

absl::StatusOr<std::string> NormalAddress(absl::string_view text) {
  absl::ConsumePrefix(&text, "grpc://");
  if (!absl::StartsWith(text, "unix:")) BATON_RETURN_IF_ERROR(ReadHostPort(text).status());
  return std::string(text);
}

bool IsLoopback(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const auto parsed = ParseHostPort(absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}}));
  if (!parsed.ok()) return false;
  if (parsed->host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, parsed->host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, parsed->host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::Status CheckListenable(absl::string_view flag, absl::string_view address, bool reuse_port) {
  const auto parsed = ParseHostPort(address);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", parsed.status().message()));
  }
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (getaddrinfo(parsed->host.c_str(), absl::StrCat(parsed->port).c_str(), &hints, &raw) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " ", address, ": this host cannot be resolved; give an address of this machine"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> infos(raw, freeaddrinfo);
  bool bound = false;
  int error = 0;
  for (const addrinfo* info = raw; info != nullptr; info = info->ai_next) {
    const int result = TryBind(*info, reuse_port);
    bound |= result == 0;
    // In use on one of several addresses is in use, whatever the others say.
    if (result != 0 && error != EADDRINUSE) error = result;
  }
  if (error == 0 || (bound && error != EADDRINUSE)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", flag, " ", address, ": ", Remedy(error, flag)));
}

}  // namespace baton
