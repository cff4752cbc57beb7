// The server of GET /metrics over plain HTTP.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace baton {

// It has five threads: one accepts connections and four answer them. A read or write of a
// connection may take at most 5 s. The destructor ends the server and joins its threads.
class MetricsServer {
 public:
  // Starts a server at `address` (host:port; port 0: a free one). Any of the four threads calls
  // `page` for the text of an answer. An error is one line that names --metrics-listen, the address
  // and the remedy.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                              std::function<std::string()> page);
  ~MetricsServer();

  const std::string& address() const;  // the bound host:port

 private:
  struct Rep;
  explicit MetricsServer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
