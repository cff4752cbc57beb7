// Plain TCP clients for tests of ports, and the means to leave a process without descriptors.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/base/address.h"

namespace baton {

// What a client of TLS may send of its handshake before it falls silent.
inline constexpr char kBeginOfHandshake[] = "\x16\x03\x01\x02\x01\x01";

// A TCP client that connects from `source`, and from `port`, which is free again at once when it
// ends; 0: from any. A read gives up after 10 s.
class TestSocket {
 public:
  explicit TestSocket(const std::string& source = "127.0.0.1", uint16_t port = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const linger at_once{.l_onoff = port != 0 ? 1 : 0, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    const sockaddr_in from = Address(source, port);
    bound_ = bind(fd_, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0;
  }
  TestSocket(TestSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), bound_(other.bound_), reset_(other.reset_) {}
  ~TestSocket() {
    if (fd_ >= 0) close(fd_);
  }

  // Whether the other side took the connection. It may have reset it since, even before this system
  // call has returned.
  bool Connect(const std::string& address) {
    const HostPort host_port = *ParseHostPort(address);
    const sockaddr_in to = Address(host_port.host, host_port.port);
    if (!bound_) return false;
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return true;
    reset_ = errno == ECONNRESET || errno == ECONNABORTED;
    return reset_;
  }
  bool Send(absl::string_view text) {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Everything until the other side closes the connection.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 0; (n = recv(fd_, buffer, sizeof(buffer), 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  // Whether the connection is open, and nothing has come on it.
  bool IsOpen() {
    char byte = 0;
    return recv(fd_, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  // Whether the other side closes the connection without a byte.
  bool IsClosed() {
    if (reset_) return true;
    char byte = 0;
    const ssize_t n = recv(fd_, &byte, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }

 private:
  static sockaddr_in Address(const std::string& host, uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    return address;
  }

  int fd_;
  bool bound_ = false;
  bool reset_ = false;  // before Connect returned
};

// While it lives, the process can have no more descriptors than it has.
class NoMoreDescriptors {
 public:
  explicit NoMoreDescriptors(pid_t pid = getpid()) : pid_(pid) {
    rlim_t used = 0;  // descriptors without a gap
    while (access(absl::StrCat("/proc/", pid_, "/fd/", used).c_str(), F_OK) == 0) ++used;
    prlimit(pid_, RLIMIT_NOFILE, nullptr, &before_);
    const rlimit none{.rlim_cur = used, .rlim_max = before_.rlim_max};
    prlimit(pid_, RLIMIT_NOFILE, &none, nullptr);
  }
  ~NoMoreDescriptors() { prlimit(pid_, RLIMIT_NOFILE, &before_, nullptr); }

 private:
  const pid_t pid_;
  rlimit before_{};
};

}  // namespace baton
