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
// advertises none. Errors name the remedy:
// - PERMISSION_DENIED if the host is neither that of target, connection or name nor, for a worker
//   that is reached by loopback, an address of this machine, and matches none of `others` (patterns
//   as above): a worker whose key was stolen must not have prefill workers connect to other
//   machines. The error names both hosts.
// - FAILED_PRECONDITION if there is no address that could be dialled: the worker advertises all
//   addresses or none, and the target has no host.
absl::StatusOr<std::string> FindPushAddress(const WorkerAddresses& worker,
                                            const std::vector<std::string>& others);

// Whether the worker runs on this machine, by its target and its connection: one of
// them is a loopback address or an address of this machine. True if both are unknown.
bool RunsHere(const WorkerAddresses& worker);

}  // namespace baton
