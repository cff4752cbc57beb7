// One client of the simulated router: what it asks, what it must get, what it got; and what must
// hold of that: I1, I4, I5.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "router/request/choice_output.h"
#include "tests/simulation/router/sim_client_writer.h"
#include "tests/simulation/sim.h"

namespace baton {

inline constexpr Micros kNever = std::numeric_limits<Micros>::max();

// Every token has a text of its own; that of a few is so long that a client who does not read falls
// behind.
const TokenTable& SimTokenTable();
bool HasLongText(int32_t id);

// What a client asks.
struct SimClientRequest {
  SimRequest* right = nullptr;
  std::string stop;
  bool stream = true;
  int32_t priority = 0;
  std::string tenant;
  Micros deadline = kNever;
  bool must_succeed = false;  // it comes when all is well again
};

class SimClient {
 public:
  SimClient(Sim& sim, SimClientRequest request);

  const SimClientRequest& request() const { return request_; }
  int index() const { return request_.right->index; }
  Micros received() const { return received_; }
  // When the router has to give it up.
  absl::Time Deadline() const;

  bool has_begun() const { return state_ != State::kNotYet; }
  bool has_ended() const { return state_ == State::kEnded; }
  bool has_call() const { return state_ == State::kRunning && call_ != nullptr; }
  // How often it was told its end.
  int ends() const { return ends_; }

  // The router receives the request.
  void Begin();
  // The router's end of its call; it lives until the call is over or the router is.
  std::unique_ptr<SimClientWriter> Connect();
  // It has waited longer than it does: the router had to end it by now.
  void CheckDeadline() const;

  // Faults.
  void Cancel();
  void StopReading(Micros duration);
  void Disconnect() { call_ = nullptr; }  // the router's end is about to vanish
  void LoseRouter();

  void End(const absl::Status& status);

 private:
  enum class State { kNotYet, kRunning, kEnded };
  struct Choice {
    Choice(const SimRequest::Choice& right, const std::string& stop_string);
    // Sets what has to come. Where what came is what a worker gave that read forged KV, that has to
    // come.
    void Expect();
    const SimRequest::Choice& output;
    const std::string& stop;
    // As it has to end.
    std::vector<uint32_t> expected_ids;
    std::string expected_text;
    uint32_t expected_tokens = 0;
    v1::FinishReason expected_reason = v1::FINISH_REASON_UNSPECIFIED;
    // As it came.
    std::vector<uint32_t> ids;
    std::string text;
    bool completed = false;
    v1::FinishReason reason = v1::FINISH_REASON_UNSPECIFIED;
  };

  void Take(const v1::GenerateResponse& message, std::function<void()> taken);
  void Complete(const v1::GenerateComplete& complete);
  template <typename Response>
  void TakeText(const Response& response);
  template <typename Response>
  void TakeScores(const Response& response);
  void CheckComplete();
  void CheckGuesses() const;
  void CheckWrongTokens() const;
  void CheckFailure() const;
  void CheckPoison() const;

  Sim& sim_;
  const SimClientRequest request_;
  std::vector<Choice> choices_;  // [n]
  size_t scores_ = 0;            // log probabilities of its prompt that came

  State state_ = State::kNotYet;
  Micros received_ = 0;
  Micros reads_at_ = 0;  // it takes nothing before
  bool stopped_reading_ = false;
  bool router_died_ = false;
  SimClientWriter* call_ = nullptr;  // until it is over
  v1::GenerateComplete complete_;    // the last choice's, which has the account
  int ends_ = 0;
  absl::Status status_;
  Micros ended_ = 0;
};

}  // namespace baton
