// The server of GET /metrics over plain HTTP.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

// The type of the text of Metrics::Scrape.
inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// It has two threads: one accepts connections and one serves them all, so that a slow client does
// not delay others. Of more than 64 connections the oldest is closed. A request has at most 8 KiB.
// On loopback its Host must be localhost or an address: otherwise a page in a browser could read
// the metrics by a name that its own server resolves to this machine. The destructor ends the
// server and joins its threads.
class MetricsServer {
 public:
  static constexpr absl::Duration kTimeout = absl::Seconds(2);

  // Starts a server at `address` (host:port; port 0: a free one). Its second thread calls `page`
  // for the text of an answer. A request must come within `timeout`, and its answer be taken within
  // as much again. `reuse_port`: as Acceptor::Options. An error is one line that names
  // --metrics-listen, the address and the remedy.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                              std::function<std::string()> page,
                                                              absl::Duration timeout = kTimeout,
                                                              bool reuse_port = false);
  ~MetricsServer();

  const std::string& address() const;  // the bound host:port

 private:
  struct Rep;
  explicit MetricsServer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
