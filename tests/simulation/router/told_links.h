// On which links hand-offs of a request failed as far as the router was told, and that it does not
// try them again and again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "router/request/attempt.h"
#include "router/request/events.h"
#include "router/request/request_machine.h"
#include "tests/simulation/sim.h"

namespace baton {

// The links of requests with one choice, whose attempts come one after another.
class ToldLinks {
 public:
  explicit ToldLinks(Sim& sim) : sim_(sim) {}

  // The router has handled an event of the request, and `attempt` runs now; null: none does. A link
  // on which two hand-offs of the request have failed is taken again only if nothing else is
  // possible: never if decode workers may prefill, and never before it has rested.
  void Handled(const RequestMachine& machine, const Attempt* attempt);

 private:
  using Link = std::pair<uint64_t, uint64_t>;  // ids of the prefill and the decode worker
  struct Failures {
    int count = 0;
    absl::Time last{};
  };
  struct Request {
    uint32_t breaks = 0;
    std::optional<Link> running{};  // the link of the attempt that ran after the event before
    uint32_t running_attempt = 0;
    std::map<Link, Failures> failures{};
  };
  Sim& sim_;
  std::map<uint64_t, Request> requests_;  // by the low half of their ids
};

}  // namespace baton
