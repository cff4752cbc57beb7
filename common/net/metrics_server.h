// GET /metrics over plain HTTP.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace baton {

// Four threads of its own; a connection may wait at most 5 s for its request or its answer. Ends
// with its destructor.
class MetricsServer {
 public:
  // `page` makes the text of each answer and is called from any of the threads. The error is one
  // line that names --metrics-listen, the address and the remedy.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                              std::function<std::string()> page);
  ~MetricsServer();

  const std::string& address() const;  // as bound

 private:
  struct Rep;
  explicit MetricsServer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
