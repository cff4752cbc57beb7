// The metric of connections that are closed before a byte is read.
#pragma once

#include <functional>
#include <string>

#include "common/net/acceptor.h"
#include "common/net/metrics.h"

namespace baton {

// For Acceptor::Options::refused: counts baton_refused_connections_total by `port` ("grpc", "http")
// and reason. Usable while `metrics` lives; thread-safe.
std::function<void(Acceptor::Refusal)> RefusedConnectionsCounter(const std::string& port,
                                                                 Metrics& metrics);

}  // namespace baton
