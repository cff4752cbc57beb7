// Which transitions of the two machines and which faults a set of runs has exercised.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "decode_worker/receive_machine.h"
#include "prefill_worker/send_machine.h"
#include "tests/simulation/fault_plan.h"

namespace baton {

struct Coverage {
  static constexpr size_t kStates = 8;
  static constexpr size_t kEvents = 16;
  // [state before][event, by its place in the variant][state after]
  using Transitions = std::array<std::array<std::array<uint64_t, kStates>, kEvents>, kStates>;
  static_assert(std::variant_size_v<SendEvent::Any> <= kEvents);
  static_assert(std::variant_size_v<ReceiveEvent::Any> <= kEvents);

  Transitions sender{};
  Transitions receiver{};
  Transitions machine{};                     // transitions of requests in the router
  std::map<std::string, uint64_t> outcomes;  // code and reason of requests' ends
  std::array<uint64_t, kFaultKinds> faults{};
  std::array<uint64_t, 32> refusals{};  // [reason that the receiver answered]
  uint64_t attempts = 0;                // attempts of answered requests
  Micros longest_gentle = 0;            // longest request while one worker at a time breaks
  uint64_t isolated = 0;                // attempts that ran alone
  uint64_t preemptions = 0;
  uint64_t prefills_by_prefix = 0;  // requests whose worker was chosen for what it holds
  uint64_t decodes_by_prefix = 0;
  uint64_t forks = 0;              // forks of several choices into sequences
  uint64_t repeated_together = 0;  // later attempts at several choices
  uint64_t resumed_choices = 0;    // choices resumed alone after their first tokens
  uint64_t stopped_choices = 0;    // by the router, while others go on
  uint64_t audits = 0;
  uint64_t audits_wrong = 0;        // audits that found forged KV
  uint64_t distrusted = 0;          // Decode calls that were ended because of it
  uint64_t refused_pushers = 0;     // Decode calls that named a quarantined pusher
  uint64_t refused_commits = 0;     // pushes whose pusher was quarantined meanwhile
  uint64_t answered_elsewhere = 0;  // requests of which an attempt was so ended or refused
  uint64_t wrong_answers = 0;       // requests answered from forged KV that no audit has found
  uint64_t local_prefills = 0;
  uint64_t runs = 0;                   // steps that gave several tokens of one sequence
  uint64_t stops_in_runs = 0;          // messages with tokens of a choice behind its stop string
  uint64_t deaths_in_runs = 0;         // workers that died of a step with guesses
  uint64_t told_kills = 0;             // workers that died of an output, and the router knew where
  uint64_t untold_kills = 0;           // such deaths of which the router did not know where
  uint64_t opening_kills = 0;          // workers that died of opening a request
  uint64_t opened_alone = 0;           // workers among them that had nothing else to open
  uint64_t spent_links = 0;            // links on which two hand-offs of one request failed
  uint64_t standstills = 0;            // requests ended because two workers stood still of them
  uint64_t runs_by_grammar = 0;        // runs of a sequence with a grammar
  uint64_t replayed_grammars = 0;      // attempts that begin with outputs held to a grammar
  uint64_t scored = 0;                 // answers with the prompt's log probabilities
  uint64_t scored_again = 0;           // attempts behind the first that compute them
  uint64_t blocks_of_refused = 0;      // taken for guesses, and given back with them
  uint64_t blocks_behind_windows = 0;  // given back because no later token reads them
  uint64_t window_pages_left_out = 0;  // pages of committed pushes that none reads, so not sent
  uint64_t messages = 0;               // delivered, Watch's not counted
  uint64_t steps = 0;                  // engine steps
  uint64_t copies = 0;
  uint64_t cached_tokens = 0;        // tokens that a receiver held already, so not sent
  uint64_t resumed_tokens = 0;       // received by a broken attempt at the same request, not sent
  uint64_t joins = 0;                // streams that joined a push
  uint64_t joined_streams_lost = 0;  // while their push went on
  uint64_t reordered = 0;  // messages that came after one of a higher number on another stream

  void Count(SendMachine::State before, const SendEvent::Any& event, SendMachine::State after) {
    ++sender[static_cast<size_t>(before)][event.index()][static_cast<size_t>(after)];
  }
  void Count(ReceiveMachine::State before, const ReceiveEvent::Any& event,
             ReceiveMachine::State after) {
    ++receiver[static_cast<size_t>(before)][event.index()][static_cast<size_t>(after)];
  }
  void CountMachine(size_t before, size_t event, size_t after) { ++machine[before][event][after]; }
  void Count(Fault fault) { ++faults[static_cast<size_t>(fault)]; }

  void Add(const Coverage& other);
  uint64_t FaultCount() const;
  uint64_t EventCount() const { return messages + steps; }
  // All that was counted, for people.
  std::string Table() const;
  // Faults, refusals and transitions that can happen and were not counted, one a line.
  std::string Missing() const;
};

}  // namespace baton
