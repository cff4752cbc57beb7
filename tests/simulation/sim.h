// What the parts of a simulated cluster share: time, chance, the faults to come, the trace, and the
// first thing that was wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/simulation/coverage.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/fault_plan.h"
#include "tests/simulation/kv_content.h"
#include "tests/simulation/sim_random.h"

namespace baton {

// A request and the only right answer to it.
struct SimRequest {
  struct Choice {
    std::vector<int32_t> output;         // to an end token or max_tokens
    std::unique_ptr<KvContent> content;  // KV of prompt and output
    // Outputs that a worker got wrong because it read forged KV, by their index: the last attempt
    // in which one did.
    std::map<int, uint32_t> wrong;
    // What came of guesses, as workers told it with an output, by its index. Several attempts may
    // have given the output, one that was only hedged among them, and the router took any.
    struct Count {
      uint32_t least = UINT32_MAX;
      uint32_t most = 0;
      void Add(uint32_t told) {
        least = std::min(least, told);
        most = std::max(most, told);
      }
    };
    struct Guessed {
      Count accepted;
      Count refused;
    };
    std::map<int, Guessed> guessed;
  };
  int index = 0;
  std::vector<int32_t> prompt;
  int max_tokens = 0;
  uint64_t seed = 0;
  std::string grammar;          // grammar of the choices, in bytes; empty: any text
  bool scored = false;          // the client wants the prompt's log probabilities
  std::vector<Choice> choices;  // [n]
  // Computing this kills the worker: the output with that index of one choice, a chunk of the
  // prompt; -1: nothing does.
  int deadly_output = -1;
  uint32_t deadly_choice = 0;
  int deadly_chunk = -1;
  bool deadly_opening = false;  // a worker that opens it dies
  // The output of `deadly_choice` that takes an engine so long that it stands still; -1: none does.
  int costly_output = -1;
  std::set<uint32_t> stopped;  // attempts in which an engine has begun to compute it
  // Addresses of the workers whose engines stood still while they computed it.
  std::set<std::string> stood_still;
  // A worker that died of it, by the attempt that it computed, and what it had told before.
  struct Kill {
    bool decoded = false;  // it died in a decode, else in a prompt
    int computed = 0;      // tokens of the prompt; not of one that it decoded
    int outputs = 0;       // outputs that there were then, those of earlier attempts too
  };
  std::map<uint32_t, Kill> kills;
  // Attempts in which a worker gave a token; those that their decode worker ended because of who
  // pushed; and those of these that the router heard of while the request ran.
  std::set<uint32_t> gave_tokens;
  std::set<uint32_t> distrusted;
  std::set<uint32_t> heard_wrong;
};

using SimAttemptId = std::pair<int, uint32_t>;  // request, attempt

// One attempt at one or more choices of a request, as a worker is given it.
struct SimAttempt {
  int request = 0;
  uint32_t attempt = 0;
  uint32_t choices = 1;            // from key.choice on
  uint64_t call = 0;               // the router's, on the control network
  int decode = -1;                 // worker; none: one token remains
  std::vector<int32_t> token_ids;  // prompt, then the output so far
  int prompt_length = 0;
  bool isolate = false;
  bool guess = true;    // its tokens may be guessed
  bool scored = false;  // it tells the prompt's log probabilities, so it computes all of it
  SimGrammar grammar;   // behind token_ids
  SimRequest* right = nullptr;
  const KvContent* content = nullptr;  // content of its first choice; for token_ids, of all
  internal::v1::AttemptKey key;
  std::string capability;
  internal::v1::Pusher pusher;  // the pusher that the router names to the decode worker
  // From then on its worker does and says nothing of it; at first never.
  Micros forgotten_at = std::numeric_limits<Micros>::max();

  SimAttemptId id() const { return {request, attempt}; }
};

struct Sim {
  explicit Sim(uint64_t seed) : random(seed), plan(random) {}

  EventQueue queue;
  SimRandom random;
  FaultPlan plan;
  Coverage coverage;
  bool healed = false;
  bool forged = false;    // some prefill worker has forged KV
  uint64_t trace = 0;     // a hash of everything that happened, in order
  std::string violation;  // the first; empty: none
  std::map<uint64_t, std::unique_ptr<SimRequest>> requests;  // by the low half of their ids
  int deaths = 0;  // deaths of workers, and stops that look the same
  // A worker computes what kills it; set by whoever can kill.
  std::function<void(bool is_prefill, int worker)> kill_worker;

  void Trace(uint64_t what, uint64_t a = 0, uint64_t b = 0) {
    trace = Mix64(trace ^
                  Mix64(static_cast<uint64_t>(queue.now()) ^ Mix64(what ^ Mix64(a ^ Mix64(b)))));
  }
  template <typename... Parts>
  void Violation(const Parts&... parts) {
    if (violation.empty()) violation = absl::StrCat("at ", queue.now(), " us: ", parts...);
  }
  // Whether that fault happens now; counts it.
  bool Strikes(Fault fault) {
    const int chance = healed ? 0 : plan.Chance(fault);
    if (chance == 0 || !random.Chance(chance)) return false;
    coverage.Count(fault);
    Trace(1000 + static_cast<uint64_t>(fault));
    return true;
  }
};

// A process of the cluster: it can stop for a while, and what comes in meanwhile is handled when it
// wakes up; it can die, and nothing that it had asked for happens any more.
class SimProcess {
 public:
  explicit SimProcess(Sim& sim) : sim_(sim) {}
  bool up() const { return up_; }
  bool paused() const { return paused_; }
  uint64_t life() const { return life_; }

  void Post(std::function<void()> what) {
    if (!up_) return;
    if (paused_) {
      waiting_.push_back(std::move(what));
    } else {
      what();
    }
  }
  void After(Micros delay, std::function<void()> what) {
    sim_.queue.After(delay, [this, life = life_, what = std::move(what)]() mutable {
      if (life == life_) Post(std::move(what));
    });
  }
  // One that runs.
  void Pause() { paused_ = true; }
  void Wake() {
    if (!paused_) return;
    paused_ = false;
    for (auto& what : std::exchange(waiting_, {})) Post(std::move(what));
  }
  void Die() {
    up_ = paused_ = false;
    ++life_;
    waiting_.clear();
  }
  void Start() { up_ = true; }

 private:
  Sim& sim_;
  bool up_ = true;
  bool paused_ = false;
  uint64_t life_ = 0;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace baton
