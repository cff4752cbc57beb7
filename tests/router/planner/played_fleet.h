// A fleet that consists of its rates alone, in time of its own: prefill workers that take one
// prompt after the other from a common queue, decode workers whose steps take longer the more
// sequences they have, machines that change their role by being started again.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "absl/time/time.h"

#include "router/planner/demand.h"
#include "router/planner/fleet_load.h"
#include "router/planner/step_time.h"

namespace baton {

struct PlayedRates {
  double prompt_tokens_per_second = 10000;
  double alone_s = 0.020, more_s = 0.0005;  // time of a step, and of each further sequence
  double start_s = 10;                      // until a machine that was started is a worker
  double max_queue_s = 10;                  // a request that waited longer is refused
};

// Requests by Poisson, of lengths between half and three halves of these.
struct PlayedPart {
  double seconds = 0;
  double requests_per_second = 0;
  double prompt_tokens = 0, output_tokens = 0;
};

// Requests of a part that got what was promised, and all of them.
struct PlayedGoodput {
  uint32_t good = 0, all = 0;
};

class PlayedFleet {
 public:
  // What is promised.
  static constexpr double kFirstTokenS = 1.0, kTokenS = 0.050;

  PlayedFleet(uint32_t prefill, uint32_t decode, const PlayedRates& rates = {});

  // Machines are started again until so many are, or are going to be, prefill workers.
  void SetPrefill(uint32_t workers);
  // Plays the part; `on_second` is called each second. The seed decides the requests.
  PlayedGoodput& Play(
      const PlayedPart& part, uint64_t seed, const std::function<void()>& on_second = [] {});
  // Plays without new requests until all have ended.
  void Finish();

  absl::Time now() const { return absl::UnixEpoch() + absl::Seconds(now_); }
  FleetLoad load() const;
  const StepTime& steps() const { return steps_; }

 private:
  struct Request {
    double arrived = 0, first_token = 0;
    uint32_t prompt_tokens = 0, output_tokens = 0;
    Demand::Place place;
    PlayedGoodput* goodput = nullptr;
  };
  struct Machine {
    enum class State { kPrefill, kDecode, kStarts } state = State::kPrefill;
    bool leaves = false;  // its role, once it has nothing to do
    // As a prefill worker.
    bool busy = false;
    // As a decode worker: steps done; sequences by the step that ends them; those that join the
    // next.
    uint64_t steps = 0;
    std::multimap<uint64_t, Request> sequences;
    std::vector<Request> joining;
    bool stepping = false;
    double generated = 0, reports = 0, reported_sequences = 0;  // in the current sample

    size_t load() const { return sequences.size() + joining.size(); }
  };
  struct Event {
    double at;
    uint64_t number;  // events of one time are in the order in which they were planned
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  void At(double at, std::function<void()> what);
  // Everything that is due before `end`, and `on_second`.
  void RunUntil(double end, const std::function<void()>& on_second);
  void Advance(double at);
  void Arrive(Request request);
  void TakePrompts();
  void Decode(Request request);
  void Step(Machine& machine);
  void StepDone(Machine& machine);
  void ChangeRole(Machine& machine);
  void Report();
  uint32_t Count(Machine::State state) const;
  uint32_t prefill_to_be() const;

  const PlayedRates rates_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::map<const Machine*, bool> becomes_prefill_;  // for starting machines
  std::deque<Request> waiting_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t next_number_ = 0;
  double now_ = 0, next_tick_ = 0.25;
  int ticks_ = 0;
  uint32_t busy_ = 0;  // prefill workers
  double busy_seconds_ = 0, computed_tokens_ = 0;
  Demand demand_;
  StepTime steps_;
  std::deque<PlayedGoodput> goodputs_;  // one for each part
};

}  // namespace baton
