// One client of the simulated router: what it asks, what it must get, what it got.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "router/request/choice_output.h"
#include "tests/simulation/router_sim.h"
#include "tests/simulation/sim_client_writer.h"

namespace baton {

inline constexpr Micros kNever = std::numeric_limits<Micros>::max();

// Every token has a text of its own; that of a few is so long that a client who does not read falls
// behind.
const TokenTable& SimTokenTable();

struct RouterSim::Client {
  enum class State { kNotYet, kRunning, kEnded };
  struct Choice {
    Choice(const std::vector<int32_t>& output, const std::string& stop);
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

  SimRequest* right = nullptr;
  std::string stop;
  bool stream = true;
  int32_t priority = 0;
  std::string tenant;
  Micros deadline = kNever;
  bool must_succeed = false;    // it comes when all is well again
  std::vector<Choice> choices;  // [n]

  State state = State::kNotYet;
  Micros received = 0;
  Micros reads_at = 0;  // it takes nothing before
  bool stopped_reading = false;
  bool router_died = false;
  SimClientWriter* call = nullptr;  // until it is over
  v1::GenerateComplete complete;    // that of the last choice: it has the account
  int ends = 0;
  absl::Status status;
  Micros ended = 0;
};

}  // namespace baton
