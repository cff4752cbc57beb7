#include "tests/simulation/coverage.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

constexpr const char* kSenderStates[] = {"idle",     "opening", "sending", "committing",
                                         "aborting", "closing", "gone"};
constexpr const char* kSenderEvents[] = {"Begin",          "LayerReady", "Flush",    "ChunkReady",
                                         "FirstToken",     "Abort",      "Response", "StreamEnded",
                                         "SlicesReleased", "Tick",       "Alive"};
constexpr const char* kReceiverStates[] = {"reserved",  "open",     "receiving",
                                           "committed", "draining", "gone"};
constexpr const char* kReceiverEvents[] = {"ControlReceived", "DataReceived", "Malformed",
                                           "StreamLost",      "Granted",      "CopyDone",
                                           "Cancelled",       "Tick",         "EventsLost"};
constexpr const char* kRequestPhases[] = {"choosing", "opening",   "prefilling",
                                          "decoding", "finishing", "done"};
constexpr const char* kRequestEvents[] = {"WorkersChosen",   "Abandoned",      "DecodeMessage",
                                          "DecodeEnded",     "PrefillMessage", "PrefillEnded",
                                          "ClientCancelled", "ClientBehind",   "ClientCaughtUp",
                                          "TimerFired",      "NoneElsewhere"};
static_assert(std::size(kSenderEvents) == std::variant_size_v<SendEvent::Any>);
static_assert(std::size(kReceiverEvents) == std::variant_size_v<ReceiveEvent::Any>);

struct Transition {
  const char* from;
  const char* event;
  const char* to;
};

// What can happen to a push that the router and the network do not spare.
constexpr Transition kSender[] = {
    {"idle", "Begin", "opening"},
    {"idle", "Abort", "gone"},
    {"opening", "Response", "sending"},
    {"opening", "Response", "closing"},
    {"opening", "Response", "aborting"},
    {"opening", "StreamEnded", "gone"},
    {"opening", "Abort", "aborting"},
    {"opening", "Tick", "aborting"},
    {"opening", "LayerReady", "opening"},
    {"sending", "Flush", "sending"},
    {"sending", "Response", "sending"},
    {"sending", "Response", "committing"},
    {"sending", "FirstToken", "committing"},
    {"sending", "Response", "aborting"},
    {"sending", "Response", "closing"},
    {"sending", "StreamEnded", "closing"},
    {"sending", "StreamEnded", "gone"},
    {"sending", "Abort", "aborting"},
    {"sending", "Tick", "aborting"},
    {"sending", "Alive", "sending"},
    {"committing", "Response", "closing"},
    {"committing", "StreamEnded", "gone"},
    {"committing", "Abort", "aborting"},
    {"committing", "Tick", "aborting"},
    {"aborting", "Response", "aborting"},
    {"aborting", "Response", "closing"},
    {"aborting", "StreamEnded", "gone"},
    {"aborting", "StreamEnded", "closing"},
    {"aborting", "SlicesReleased", "aborting"},
    {"aborting", "Tick", "closing"},
    {"closing", "StreamEnded", "gone"},
    {"closing", "SlicesReleased", "closing"},
    {"closing", "SlicesReleased", "gone"},
    {"closing", "Response", "closing"},
    {"closing", "Abort", "closing"},
    {"closing", "Tick", "closing"},
};

constexpr Transition kReceiver[] = {
    {"reserved", "ControlReceived", "reserved"},
    {"reserved", "ControlReceived", "open"},
    {"reserved", "ControlReceived", "gone"},
    {"reserved", "Cancelled", "gone"},
    {"reserved", "Tick", "gone"},
    {"open", "Granted", "receiving"},
    {"open", "ControlReceived", "open"},
    {"open", "Cancelled", "gone"},
    {"open", "StreamLost", "gone"},
    {"receiving", "DataReceived", "receiving"},
    {"receiving", "DataReceived", "gone"},
    {"receiving", "DataReceived", "draining"},
    {"receiving", "ControlReceived", "receiving"},
    {"receiving", "ControlReceived", "committed"},
    {"receiving", "ControlReceived", "gone"},
    {"receiving", "ControlReceived", "draining"},
    {"receiving", "CopyDone", "receiving"},
    {"receiving", "CopyDone", "gone"},
    {"receiving", "CopyDone", "draining"},
    {"receiving", "Malformed", "gone"},
    {"receiving", "Malformed", "draining"},
    {"receiving", "StreamLost", "gone"},
    {"receiving", "StreamLost", "draining"},
    {"receiving", "Cancelled", "gone"},
    {"receiving", "Cancelled", "draining"},
    {"receiving", "Tick", "gone"},
    {"draining", "CopyDone", "draining"},
    {"draining", "CopyDone", "gone"},
    {"draining", "DataReceived", "draining"},
    {"draining", "ControlReceived", "draining"},
    {"draining", "Cancelled", "draining"},
    {"draining", "StreamLost", "draining"},
    {"committed", "Cancelled", "gone"},
    {"committed", "DataReceived", "committed"},
    {"committed", "ControlReceived", "committed"},
    {"committed", "StreamLost", "committed"},
    {"gone", "DataReceived", "gone"},
    {"gone", "ControlReceived", "gone"},
    {"gone", "StreamLost", "gone"},
};

// What can happen to a request with one choice.
constexpr Transition kRequest[] = {
    {"choosing", "WorkersChosen", "opening"},
    {"choosing", "WorkersChosen", "prefilling"},
    {"choosing", "Abandoned", "done"},
    {"choosing", "ClientCancelled", "done"},
    {"choosing", "TimerFired", "choosing"},
    {"choosing", "TimerFired", "done"},
    {"choosing", "DecodeEnded", "choosing"},
    {"choosing", "PrefillEnded", "choosing"},
    {"opening", "DecodeMessage", "prefilling"},
    {"opening", "DecodeEnded", "choosing"},
    {"opening", "DecodeEnded", "opening"},
    {"opening", "PrefillEnded", "opening"},
    {"opening", "Abandoned", "done"},
    {"opening", "ClientCancelled", "done"},
    {"opening", "TimerFired", "done"},
    {"prefilling", "DecodeMessage", "prefilling"},
    {"prefilling", "DecodeMessage", "decoding"},
    {"prefilling", "DecodeEnded", "choosing"},
    {"prefilling", "DecodeEnded", "prefilling"},
    {"prefilling", "PrefillMessage", "choosing"},
    {"prefilling", "PrefillMessage", "prefilling"},
    {"prefilling", "PrefillMessage", "finishing"},
    {"prefilling", "PrefillEnded", "choosing"},
    {"prefilling", "PrefillEnded", "prefilling"},
    {"prefilling", "PrefillEnded", "done"},
    {"prefilling", "Abandoned", "done"},
    {"prefilling", "ClientCancelled", "done"},
    {"prefilling", "TimerFired", "choosing"},
    {"prefilling", "TimerFired", "done"},
    {"decoding", "DecodeMessage", "decoding"},
    {"decoding", "DecodeMessage", "finishing"},
    {"decoding", "DecodeEnded", "choosing"},
    {"decoding", "PrefillMessage", "decoding"},
    {"decoding", "PrefillEnded", "decoding"},
    {"decoding", "Abandoned", "done"},
    {"decoding", "ClientCancelled", "done"},
    {"decoding", "ClientBehind", "decoding"},
    {"decoding", "ClientCaughtUp", "decoding"},
    {"decoding", "TimerFired", "choosing"},
    {"decoding", "TimerFired", "done"},
    {"finishing", "DecodeMessage", "done"},
    {"finishing", "PrefillMessage", "done"},
    {"finishing", "TimerFired", "done"},
};

constexpr int kRefusals[] = {internal::v1::PushRefused::REASON_UNKNOWN_ATTEMPT,
                             internal::v1::PushRefused::REASON_SUPERSEDED,
                             internal::v1::PushRefused::REASON_CAPABILITY,
                             internal::v1::PushRefused::REASON_MODEL_MISMATCH,
                             internal::v1::PushRefused::REASON_SHAPE,
                             internal::v1::PushRefused::REASON_CHECKSUM,
                             internal::v1::PushRefused::REASON_OUT_OF_RANGE,
                             internal::v1::PushRefused::REASON_INCOMPLETE,
                             internal::v1::PushRefused::REASON_ABORTED,
                             internal::v1::PushRefused::REASON_DRAINING};

template <size_t n>
size_t Place(const char* const (&names)[n], const std::string& name) {
  for (size_t i = 0; i < n; ++i) {
    if (name == names[i]) return i;
  }
  return 0;
}

template <size_t states, size_t events, size_t transitions>
std::string MissingOf(const char* machine, const Coverage::Transitions& counts,
                      const char* const (&state_names)[states],
                      const char* const (&event_names)[events],
                      const Transition (&wanted)[transitions]) {
  std::string missing;
  for (const Transition& t : wanted) {
    if (counts[Place(state_names, t.from)][Place(event_names, t.event)][Place(state_names, t.to)] ==
        0) {
      absl::StrAppend(&missing, machine, ": ", t.from, " -", t.event, "-> ", t.to, "\n");
    }
  }
  return missing;
}

template <size_t states, size_t events>
std::string TableOf(const char* machine, const Coverage::Transitions& counts,
                    const char* const (&state_names)[states],
                    const char* const (&event_names)[events]) {
  std::string table;
  for (size_t from = 0; from < states; ++from) {
    for (size_t event = 0; event < events; ++event) {
      for (size_t to = 0; to < states; ++to) {
        const uint64_t count = counts[from][event][to];
        if (count == 0) continue;
        absl::StrAppendFormat(&table, "%-9s %-11s %-16s %-11s %12d\n", machine, state_names[from],
                              event_names[event], state_names[to], count);
      }
    }
  }
  return table;
}

}  // namespace

void Coverage::Add(const Coverage& other) {
  const auto add = [](Transitions& to, const Transitions& from) {
    for (size_t a = 0; a < kStates; ++a) {
      for (size_t e = 0; e < kEvents; ++e) {
        for (size_t b = 0; b < kStates; ++b) to[a][e][b] += from[a][e][b];
      }
    }
  };
  add(sender, other.sender);
  add(receiver, other.receiver);
  add(machine, other.machine);
  for (const auto& [outcome, count] : other.outcomes) outcomes[outcome] += count;
  for (size_t i = 0; i < faults.size(); ++i) faults[i] += other.faults[i];
  for (size_t i = 0; i < refusals.size(); ++i) refusals[i] += other.refusals[i];
  attempts += other.attempts;
  longest_gentle = std::max(longest_gentle, other.longest_gentle);
  isolated += other.isolated;
  preemptions += other.preemptions;
  prefills_by_prefix += other.prefills_by_prefix;
  decodes_by_prefix += other.decodes_by_prefix;
  forks += other.forks;
  repeated_together += other.repeated_together;
  resumed_choices += other.resumed_choices;
  stopped_choices += other.stopped_choices;
  audits += other.audits;
  audits_wrong += other.audits_wrong;
  distrusted += other.distrusted;
  refused_pushers += other.refused_pushers;
  refused_commits += other.refused_commits;
  answered_elsewhere += other.answered_elsewhere;
  wrong_answers += other.wrong_answers;
  local_prefills += other.local_prefills;
  runs += other.runs;
  stops_in_runs += other.stops_in_runs;
  deaths_in_runs += other.deaths_in_runs;
  told_kills += other.told_kills;
  untold_kills += other.untold_kills;
  opening_kills += other.opening_kills;
  opened_alone += other.opened_alone;
  spent_links += other.spent_links;
  standstills += other.standstills;
  runs_by_grammar += other.runs_by_grammar;
  replayed_grammars += other.replayed_grammars;
  scored += other.scored;
  scored_again += other.scored_again;
  blocks_of_refused += other.blocks_of_refused;
  blocks_behind_windows += other.blocks_behind_windows;
  window_pages_left_out += other.window_pages_left_out;
  messages += other.messages;
  steps += other.steps;
  copies += other.copies;
  cached_tokens += other.cached_tokens;
  resumed_tokens += other.resumed_tokens;
  joins += other.joins;
  joined_streams_lost += other.joined_streams_lost;
  reordered += other.reordered;
}

uint64_t Coverage::FaultCount() const {
  return std::accumulate(faults.begin(), faults.end(), uint64_t{0});
}

std::string Coverage::Table() const {
  std::string table = TableOf("sender", sender, kSenderStates, kSenderEvents);
  table += TableOf("receiver", receiver, kReceiverStates, kReceiverEvents);
  table += TableOf("request", machine, kRequestPhases, kRequestEvents);
  for (const int reason : kRefusals) {
    absl::StrAppendFormat(&table, "refusal   %-41s %11d\n",
                          internal::v1::PushRefused::Reason_Name(
                              static_cast<internal::v1::PushRefused::Reason>(reason)),
                          refusals[static_cast<size_t>(reason)]);
  }
  for (size_t i = 0; i < kFaultKinds; ++i) {
    absl::StrAppendFormat(&table, "fault     %-41s %11d\n", FaultName(static_cast<Fault>(i)),
                          faults[i]);
  }
  for (const auto& [outcome, count] : outcomes) {
    absl::StrAppendFormat(&table, "request   %-41s %11d\n", outcome, count);
  }
  absl::StrAppend(
      &table, attempts, " attempts of those that were answered, at most ", longest_gentle / 1000,
      " ms while one worker at a time breaks, ", isolated, " alone, ", preemptions,
      " preemptions, ", prefills_by_prefix, " prefill and ", decodes_by_prefix,
      " decode workers chosen for a prefix, ", forks, " forks, ", repeated_together,
      " further attempts at several choices, ", resumed_choices, " at one of several, ",
      stopped_choices, " choices stopped while others go on, ", audits, " audits, ", audits_wrong,
      " found forged KV, ", distrusted, " Decode calls ended for it, ", refused_pushers,
      " refused at their start, ", refused_commits, " at their commit, ", answered_elsewhere,
      " requests answered elsewhere then, ", wrong_answers,
      " wrong answers that no audit came to, ", local_prefills, " local prefills, ", runs,
      " steps with several tokens of a sequence, ", runs_by_grammar, " of them by a grammar, ",
      replayed_grammars, " attempts with outputs by a grammar, ", scored,
      " answers with log probabilities of the prompt, ", scored_again,
      " further attempts that compute them, ", deaths_in_runs, " deaths of a step with guesses, ",
      told_kills, " deaths by an output where the router knew, ", untold_kills,
      " where it did not, ", opening_kills, " deaths of opening a request, ", opened_alone,
      " of them alone, ", spent_links, " links spent by a request, ", standstills,
      " ends after two standstills, ", blocks_of_refused, " blocks of refused guesses, ",
      stops_in_runs, " stop strings with tokens behind them, ", blocks_behind_windows,
      " blocks given back behind a window, ", window_pages_left_out,
      " pages before a window not sent, ", messages, " messages delivered, ", steps,
      " steps of engines, ", copies, " copies, ", cached_tokens, " tokens held already, ",
      resumed_tokens, " resumed, ", joins, " streams joined, ", joined_streams_lost,
      " of them lost under way, ", reordered, " messages overtaken\n");
  return table;
}

std::string Coverage::Missing() const {
  std::string missing = MissingOf("sender", sender, kSenderStates, kSenderEvents, kSender);
  missing += MissingOf("receiver", receiver, kReceiverStates, kReceiverEvents, kReceiver);
  missing += MissingOf("request", machine, kRequestPhases, kRequestEvents, kRequest);
  for (const int reason : kRefusals) {
    if (refusals[static_cast<size_t>(reason)] > 0) continue;
    absl::StrAppend(&missing, "refusal: ",
                    internal::v1::PushRefused::Reason_Name(
                        static_cast<internal::v1::PushRefused::Reason>(reason)),
                    "\n");
  }
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (faults[i] == 0)
      absl::StrAppend(&missing, "fault: ", FaultName(static_cast<Fault>(i)), "\n");
  }
  for (const char* outcome :
       {"OK", "CANCELLED", "DEADLINE_EXCEEDED DEADLINE_EXCEEDED", "INTERNAL POISON_REQUEST",
        "RESOURCE_EXHAUSTED QUEUE_FULL", "UNAVAILABLE NO_READY_WORKER", "UNAVAILABLE DRAINING",
        "UNAVAILABLE", "DATA_LOSS KV_WRONG"}) {
    if (outcomes.count(outcome) == 0) absl::StrAppend(&missing, "outcome: ", outcome, "\n");
  }
  const auto want = [&missing](uint64_t count, const char* what) {
    if (count == 0) absl::StrAppend(&missing, what, "\n");
  };
  want(isolated, "an attempt that runs alone");
  want(preemptions, "a preemption");
  want(prefills_by_prefix, "a prefill worker chosen for a prefix");
  want(decodes_by_prefix, "a decode worker chosen for a prefix");
  want(forks, "choices that part");
  want(repeated_together, "choices that begin anew together");
  want(resumed_choices, "a choice resumed alone");
  want(stopped_choices, "a choice stopped while others go on");
  want(audits_wrong, "an audit that finds forged KV");
  want(distrusted, "a call that ends because its KV is wrong");
  want(refused_pushers, "a call that names a quarantined pusher");
  want(answered_elsewhere, "a request answered elsewhere after its KV proved to be wrong");
  want(wrong_answers, "a wrong answer that no audit came to");
  want(local_prefills, "a local prefill");
  want(runs, "a step with several tokens of a sequence");
  want(runs_by_grammar, "a step with several tokens of a sequence that is held to a grammar");
  want(replayed_grammars, "an attempt that begins with outputs held to a grammar");
  want(scored, "an answer with the log probabilities of its prompt");
  want(scored_again, "a further attempt that computes them");
  want(stops_in_runs, "a stop string with tokens behind it in its message");
  want(deaths_in_runs, "a worker that dies of a step with guesses");
  want(told_kills, "a worker that dies of an output where the router knows");
  want(untold_kills, "a worker that dies of an output where the router does not know");
  want(opening_kills, "a worker that dies of opening a request");
  want(opened_alone, "a worker that dies of opening a request alone");
  want(spent_links, "a link on which two hand-offs of one request fail");
  want(standstills, "a request that ends because two workers stood still of it");
  want(blocks_of_refused, "a block given back with refused guesses");
  want(blocks_behind_windows, "a block given back because it is out of the window");
  want(window_pages_left_out, "a push that leaves out pages before the window");
  want(cached_tokens, "a prefix held already");
  want(resumed_tokens, "an attempt resumed behind a checkpoint");
  want(joined_streams_lost, "a joined stream lost while the push went on");
  want(reordered, "a message overtaken on another stream");
  return missing;
}

}  // namespace baton
