// Looks up the addresses of names without waiting for DNS.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

// Addresses as numbers without brackets, sorted, each once.
using HostAddresses = absl::StatusOr<std::vector<std::string>>;

// Asks the system's resolver for the addresses of `host`, and blocks for as long as it does, which
// may be a minute. NOT_FOUND if the name does not exist. UNAVAILABLE if DNS does not answer, fails,
// or knows the name but no address.
HostAddresses LookUpHost(const std::string& host);

// Remembers the last answer for each name. A lookup that waits for DNS cannot be cancelled, so each
// has a thread of its own that is never joined and outlives this object if it must: neither Ask nor
// the destructor waits for it. At most one lookup of a name runs at a time. On one thread only.
class NameResolver {
 public:
  using LookUp = std::function<HostAddresses(const std::string& host)>;
  static constexpr int kMaxLookups = 64;  // at a time

  // `look_up` is called on the lookups' threads, and may be called after this object is gone.
  explicit NameResolver(LookUp look_up = LookUpHost);

  // Starts a lookup of each of the hosts, except those whose last lookup still runs. Beyond
  // kMaxLookups, the hosts that were looked up longest ago come first. An address is answered at
  // once. Forgets all other hosts whose lookups are complete.
  void Ask(std::vector<std::string> hosts, absl::Time now);
  // Returns what the last complete lookup of `host` found; nullopt if none is complete.
  std::optional<HostAddresses> Latest(const std::string& host) const;
  // Returns how many lookups are complete, those of forgotten hosts too.
  uint64_t answers() const;
  // Returns when the running lookup of `host` began; nullopt if none runs.
  std::optional<absl::Time> WaitsSince(const std::string& host) const;

 private:
  struct State;
  // Shared with the lookups' threads.
  std::shared_ptr<State> state_;
};

}  // namespace baton
