#include "common/net/refused_connections.h"

namespace baton {

std::function<void(Acceptor::Refusal)> RefusedConnectionsCounter(const std::string& port,
                                                                 Metrics& metrics) {
  const auto counter = [&](const char* reason) {
    return metrics.AddCounter("baton_refused_connections_total",
                              "Connections that were closed before a byte of them was read",
                              {{"port", port}, {"reason", reason}});
  };
  return [rate = counter("rate"), room = counter("room"), memory = counter("memory"),
          descriptors = counter("descriptors")](Acceptor::Refusal reason) mutable {
    switch (reason) {
      case Acceptor::Refusal::kRate:
        return rate.Add();
      case Acceptor::Refusal::kRoom:
        return room.Add();
      case Acceptor::Refusal::kMemory:
        return memory.Add();
      case Acceptor::Refusal::kDescriptors:
        return descriptors.Add();
    }
  };
}

}  // namespace baton
