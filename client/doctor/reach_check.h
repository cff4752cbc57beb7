// Whether the servers of a fleet are found and answer, as those who call them would see it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "client/doctor/finding.h"
#include "common/certificates/credentials.h"
#include "common/net/channel.h"

namespace baton {

struct ReachTarget {
  std::string address{};  // host:port, dns:///name:port
  std::string whose{};    // what it is, such as "decode worker of router.toml"
  ChannelPurpose purpose = ChannelPurpose::kClient;
  bool health = true;  // whether it is asked for its health by gRPC
};

struct ReachFacts {
  ReachTarget target{};
  absl::Status parsed{};                // error if the address is malformed
  std::string name_error{};             // error if the name does not resolve; else empty
  std::vector<std::string> resolved{};  // addresses, as numbers
  size_t connected = 0;                 // addresses that accepted a TCP connection
  std::string connect_error{};          // error of the last address that did not
  bool secure = false;                  // whether the health check used TLS
  absl::Status health{};                // what it said; unknown unless something connected
};

// Resolves, connects and asks, each with a bound of time; `credentials` are what the caller would
// show. Blocks for at most about 2 s for each address that the name has, of which at most 16 are
// tried, and 5 s for the health.
ReachFacts GatherReachFacts(const ReachTarget& target, const Credentials& credentials);

// name.resolves, and if that is so server.reachable, and if that is so server.health. Pure.
Findings ReachFindings(const ReachFacts& facts);

}  // namespace baton
