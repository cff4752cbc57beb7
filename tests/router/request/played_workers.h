// Prefill and decode workers that play right tokens to a request machine, call by call, in any
// order that real ones could.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/router/request/machine_harness.h"

namespace baton {

// Reads what the machine asks for from its harness, and answers a little of it in each turn.
class PlayedWorkers {
 public:
  using Tokens = std::vector<internal::v1::OutputToken>;  // the whole output of one choice

  // `right` [choice]. Borrows both.
  PlayedWorkers(MachineHarness& harness, const std::vector<Tokens>& right, uint32_t seed)
      : harness_(harness), right_(right), random_(seed) {}

  // One of the calls goes on, or an attempt gets its workers; false when there is nothing to do.
  bool Turn();
  // Some call's worker dies, if there is one.
  void Kill();
  // Half of the decode workers refuse, from now on; others let wait.
  void Refuse(bool refuse) { refuse_ = refuse; }

  int kills_before_tokens() const { return kills_before_tokens_; }
  int kills_after_tokens() const { return kills_after_tokens_; }
  int moves_before_tokens() const { return moves_before_tokens_; }  // to a worker elsewhere
  int moves_after_tokens() const { return moves_after_tokens_; }
  size_t open_calls() const { return decodes_.size() + prefills_.size(); }

 private:
  struct Sequence {
    uint32_t first_choice = 0;
    uint32_t choices = 1;
    uint32_t first_output = 0;
  };
  struct Decode {
    Sequence sequence;
    bool local = false, accepted = false, committed = false;
    bool elsewhere = false;
    int silent_turns = 0;                 // preempted
    std::map<uint32_t, uint32_t> sent{};  // [choice]: output index that is next
    std::set<uint32_t> stopped{}, finished{};
  };
  struct Prefill {
    Sequence sequence;
    bool alone = false;  // no decode worker
    bool started = false, finished = false;
    uint32_t first_tokens = 0;  // told
  };

  static Sequence SequenceOf(const internal::v1::SequenceSpec& spec);
  void ReadActions();
  void Answer(const ChooseWorkers& ask);
  void GoOn(uint32_t attempt, Decode& decode);
  void GoOn(uint32_t attempt, Prefill& prefill);
  bool AllEndAtFirst(const Sequence& sequence) const;
  bool Chance(uint32_t one_in) { return random_() % one_in == 0; }

  MachineHarness& harness_;
  const std::vector<Tokens>& right_;
  std::mt19937 random_;
  size_t read_ = 0;  // actions
  std::vector<ChooseWorkers> asks_;
  std::set<uint32_t> elsewhere_;          // attempts
  std::map<uint32_t, Decode> decodes_;    // [attempt]
  std::map<uint32_t, Prefill> prefills_;  // [attempt]
  bool refuse_ = false;
  int kills_before_tokens_ = 0;
  int kills_after_tokens_ = 0;
  int moves_before_tokens_ = 0;
  int moves_after_tokens_ = 0;
};

}  // namespace baton
