// How many workers an output has killed as far as the router was told, and that these are few.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "router/request/attempt.h"
#include "router/request/events.h"
#include "tests/simulation/sim.h"

namespace baton {

// Not every death is told. A worker's last messages may be lost with its connection, and a slow one
// loses them each time. Then the router knows another place than the one where the worker died: if
// it has not heard a word of that worker, the opening. Nor does it count the death of a worker whose
// attempt it has given up. What bounds all these is the request's patience.
class ToldKills {
 public:
  explicit ToldKills(Sim& sim) : sim_(sim) {}

  // The router has handled `event` of a request. `attempt` computes the deadly choice from now on;
  // null: none does. The router has `outputs` tokens of that choice.
  void Handled(const SimRequest& right, const RequestEvent& event, const Attempt* attempt,
               size_t outputs);

 private:
  // The same of a request that kills whoever opens it: the router hears of each such death.
  void HandledOpening(const SimRequest& right, const RequestEvent& event, const Attempt* attempt);

  struct Chain {                     // the attempts at a deadly choice, one after another
    std::optional<Attempt> running;  // as it was after the event before
    int kills = 0;                   // those that were told
    int isolations_left = 0;
  };
  Sim& sim_;
  std::map<int, Chain> chains_;  // by request
};

}  // namespace baton
