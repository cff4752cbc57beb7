// Requests over connections that nobody reads from.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "common/base/address.h"

namespace baton {

// A request with a JSON body, of which `announced` bytes are said to come; 0: all of `body`. No key
// is shown if `key` is empty.
inline std::string RawPost(const std::string& path, const std::string& key, const std::string& body,
                           size_t announced = 0) {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\n",
                      key.empty() ? "" : absl::StrCat("x-api-key: ", key, "\r\n"),
                      "Content-Type: application/json\r\nContent-Length: ",
                      announced == 0 ? body.size() : announced, "\r\n\r\n", body);
}

// Closes its connections at its end.
class RawRequests {
 public:
  explicit RawRequests(const std::string& address) : address_(*ParseHostPort(address)) {}
  ~RawRequests() {
    for (const int descriptor : descriptors_) close(descriptor);
  }
  RawRequests(const RawRequests&) = delete;
  RawRequests& operator=(const RawRequests&) = delete;

  // Sends `bytes` over a connection of their own, as far as the server takes them.
  void Send(absl::string_view bytes) {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address_.port);
    inet_pton(AF_INET, address_.host.c_str(), &to.sin_addr);
    ASSERT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    descriptors_.push_back(descriptor);
    while (!bytes.empty()) {
      const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

 private:
  const HostPort address_;
  std::vector<int> descriptors_;
};

}  // namespace baton
