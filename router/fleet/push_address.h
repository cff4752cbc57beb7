// Where prefill workers reach a decode worker. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// What is known of a decode worker's address.
struct WorkerAddresses {
  std::string target;  // host:port or unix:..., where the router looks for the worker
  std::string
      connected{};     // where the router's connection leads, as gRPC writes it; empty: unknown
  std::string name{};  // dns:///name:port that led to this worker alone; empty: none did
  std::string advertised{};  // host:port that the worker reports; empty: none
};

// OK if `pattern` is a name, an address, a range of addresses in CIDR form, or "*".
absl::Status CheckHostPattern(const std::string& pattern);

// Returns the host:port to which pushes to the worker go: the address that it advertises, on the
// target's host if it advertises all addresses of its machine (0.0.0.0, [::]), or the target if it
// advertises none. A worker whose key was stolen must not have prefill workers connect to other
// machines, so PERMISSION_DENIED if the host is neither that of target, connection or name, nor
// matches any of `others` (patterns as above). The error names both hosts and the remedy.
absl::StatusOr<std::string> FindPushAddress(const WorkerAddresses& worker,
                                            const std::vector<std::string>& others);

}  // namespace baton
