// Prometheus metrics of a gRPC server's calls.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "grpcpp/server_builder.h"

#include "common/net/metrics.h"

namespace baton {

// Counts calls by method and code, and measures how long they took, from when the handler's call
// was made until its memory is given back. Methods that no server of Baton has are one label,
// "unknown". A call without a status of its handler's counts as CANCELLED: its client has left. What
// AccessCheck refuses never comes so far; baton_refused_calls_total counts it. Thread-safe.
class CallMetrics {
 public:
  // Borrows `metrics`, also for the calls of the servers that Watch was given.
  explicit CallMetrics(Metrics& metrics);
  ~CallMetrics();

  // Makes the server that `builder` builds count its calls. To be called once for a builder, which
  // has no other interceptors. This outlives the server.
  void Watch(grpc::ServerBuilder& builder);

 private:
  class Method;
  class Call;
  class Factory;

  Method& Find(const std::string& path);

  const std::unique_ptr<Method> unknown_;
  std::map<std::string, std::unique_ptr<Method>> methods_;  // by path; complete from the start
};

}  // namespace baton
