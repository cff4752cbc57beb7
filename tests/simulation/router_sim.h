// The router of the simulated cluster: it makes attempts until a request is done, and believes
// nobody but the decode worker that a hand-off is complete.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/decode_sim.h"
#include "tests/simulation/prefill_sim.h"
#include "tests/simulation/sim.h"

namespace baton {

class RouterSim {
 public:
  static constexpr int kWorkers = 2;  // of each kind

  RouterSim(Sim& sim, std::array<std::unique_ptr<PrefillSim>, kWorkers>& prefill,
            std::array<std::unique_ptr<DecodeSim>, kWorkers>& decode)
      : sim_(sim), prefill_(prefill), decode_(decode) {}

  // Draws the requests of the run and has them come in.
  void AddRequests();
  bool ClientCancels(uint64_t choice);           // one that runs; false when none does
  void WorkerGone(bool is_prefill, int worker);  // dead, or without progress

  // The workers' answers.
  void Accepted(const SimAttempt& attempt);
  void Committed(const SimAttempt& attempt);
  void Token(const SimAttempt& attempt, int output_index, int32_t token);
  void DecodeFailed(const SimAttempt& attempt);
  void FirstToken(const SimAttempt& attempt, int32_t token, bool ends);
  void PrefillFinished(const SimAttempt& attempt, const absl::Status& status);

  bool busy() const;  // some request has not ended
  // I4: each request has ended, once.
  void CheckAtRest();

 private:
  enum class Outcome { kRunning, kOk, kCancelled };
  struct Request {
    std::vector<int32_t> prompt;
    std::vector<int32_t> all_tokens;  // prompt and the only right output
    int output_tokens = 0;
    std::unique_ptr<KvContent> content;
    std::vector<int32_t> log;  // accepted output
    Outcome outcome = Outcome::kRunning;
    int ends = 0;
    int failures = 0;    // of attempts
    SimAttempt attempt;  // the current one
    bool committed = false;
    Micros last_news = 0;
  };

  Request& Of(const SimAttempt& attempt) { return requests_[static_cast<size_t>(attempt.request)]; }
  // Whether the news is of the attempt that counts.
  bool Current(const SimAttempt& attempt);
  void StartAttempt(int request);
  void FailAttempt(int request);
  void EndCalls(const Request& request);
  void End(int request, Outcome outcome);
  void WatchProgress(int request);
  void Call(SimProcess& process, Micros& last, std::function<void()> what,
            std::function<void()> unreachable);

  Sim& sim_;
  std::array<std::unique_ptr<PrefillSim>, kWorkers>& prefill_;
  std::array<std::unique_ptr<DecodeSim>, kWorkers>& decode_;
  std::vector<Request> requests_;
  std::array<Micros, kWorkers> last_prefill_call_{};
  std::array<Micros, kWorkers> last_decode_call_{};
};

}  // namespace baton
