// Requests by HTTP/1.1 with answers that are read as they come, over connections that are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "common/base/http_url.h"
#include "common/certificates/credentials.h"
#include "common/certificates/tls_flags.h"

namespace baton {

struct LoadHttpRequest {
  std::string method;  // "GET" or "POST"
  std::string path;
  std::string authorization;  // value of that header; empty: none
  std::string body;           // JSON, for POST
};

struct LoadHttpResult {
  int status = 0;     // 0: no head of an answer came
  std::string error;  // why the answer did not come to its end; empty: it did
  bool timed_out = false, cancelled = false;
};

// Use it on one thread. Each request has a connection to itself: one that is idle, else a new one.
// A request that meets a connection which the server has just closed is sent once again.
class LoadHttpClient {
 public:
  // Looks the host up. `tls` holds if the URL says https; without --tls-ca the system's
  // authorities count. INVALID_ARGUMENT or UNAVAILABLE name flag or host.
  static absl::StatusOr<std::unique_ptr<LoadHttpClient>> Create(const HttpUrl& url,
                                                                const TlsFlags& tls,
                                                                const Credentials& credentials);
  ~LoadHttpClient();

  using OnBody = std::function<void(int status, absl::string_view bytes)>;
  using OnEnd = std::function<void(const LoadHttpResult& result)>;
  // Sends the request. `on_end` comes last, from Poll, and may not destroy the client. Returns a
  // number for Cancel.
  uint64_t Start(const LoadHttpRequest& request, absl::Duration timeout, OnBody on_body,
                 OnEnd on_end);
  // Does nothing if the request has ended.
  void Cancel(uint64_t call);
  // Waits until something has happened, or until `until` on the steady clock.
  void Poll(absl::Time until);

 private:
  class Connection;
  class Call;

  LoadHttpClient(const HttpUrl& url, const Credentials& credentials);
  std::unique_ptr<Connection> NewConnection();

  const HttpUrl url_;
  const Credentials credentials_;
  std::string name_;  // required name in the server's certificate
  boost::asio::io_context io_{1};
  std::unique_ptr<boost::asio::ssl::context> tls_;  // null: plain text
  boost::asio::ip::tcp::resolver::results_type endpoints_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::unordered_map<uint64_t, std::shared_ptr<Call>> calls_;
  uint64_t next_call_ = 0;
};

}  // namespace baton
