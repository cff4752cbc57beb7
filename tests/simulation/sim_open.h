// What the simulated workers agree on about an attempt.
#pragma once

#include <algorithm>
#include <optional>

#include "common/handoff/carried_tokens.h"
#include "common/handoff/kv_digest.h"
#include "common/rpc/limits.h"
#include "tests/simulation/sim.h"

namespace baton {

inline internal::v1::ModelIdentity SimIdentity() {
  internal::v1::ModelIdentity identity;
  identity.set_protocol_version(kProtocolVersion);
  identity.set_architecture("llama");
  identity.set_weights_digest(std::string(32, 'w'));
  return identity;
}

inline internal::v1::KvShape SimShape(const KvLayout& layout) {
  internal::v1::KvShape shape;
  shape.set_layers(static_cast<uint32_t>(layout.layers));
  shape.set_kv_heads(1);
  shape.set_head_dim(4);
  shape.set_dtype("f16");
  shape.set_block_size(static_cast<uint32_t>(layout.block_size));
  SetLayerStates(layout, shape);
  shape.set_numerics("cpu");
  shape.add_wire_dtypes("f16");
  return shape;
}

inline int OutputIndex(const SimAttempt& attempt) {
  return static_cast<int>(attempt.token_ids.size()) - attempt.prompt_length;
}

// Whether `id` is what a worker that read forged KV gave as that output.
inline bool IsToldWrong(const SimRequest::Choice& choice, size_t index, int32_t id) {
  return id == choice.output[index] + kSimWrong && choice.wrong.count(static_cast<int>(index)) > 0;
}

inline SimAttempt AttemptFrom(Sim& sim, uint64_t call, const internal::v1::SequenceSpec& spec) {
  SimAttempt attempt;
  attempt.right = sim.requests.at(spec.key().request_id_low()).get();
  attempt.request = attempt.right->index;
  attempt.attempt = spec.key().attempt();
  attempt.choices = spec.sampling().n();
  attempt.call = call;
  attempt.token_ids.assign(spec.token_ids().begin(), spec.token_ids().end());
  attempt.prompt_length = static_cast<int>(spec.prompt_length());
  attempt.isolate = spec.isolate();
  attempt.guess = spec.speculative() != v1::SPECULATIVE_NONE;
  attempt.content = attempt.right->choices.at(spec.key().choice()).content.get();
  attempt.key = spec.key();
  attempt.capability = spec.capability();
  attempt.scored = spec.sampling().has_prompt_logprobs();
  if (attempt.scored && attempt.attempt > 1) ++sim.coverage.scored_again;
  attempt.grammar = SimGrammar(spec.grammar());
  for (int i = attempt.prompt_length; i < spec.token_ids_size(); ++i) {
    attempt.grammar.Accept(attempt.token_ids[static_cast<size_t>(i)]);
  }
  // I1, I5: what is continued is this request's prompt and the right output so far.
  const SimRequest& right = *attempt.right;
  const std::vector<int32_t>& output = right.choices[spec.key().choice()].output;
  const auto prompt = static_cast<size_t>(attempt.prompt_length);
  bool same_output = true;
  const bool same_prompt =
      prompt == right.prompt.size() && attempt.token_ids.size() >= prompt &&
      std::equal(right.prompt.begin(), right.prompt.end(), attempt.token_ids.begin());
  const bool shorter = attempt.token_ids.size() < prompt + output.size();
  for (size_t i = 0; same_output && shorter && prompt + i < attempt.token_ids.size(); ++i) {
    const int32_t id = attempt.token_ids[prompt + i];
    same_output = id == output[i] || IsToldWrong(right.choices[spec.key().choice()], i, id);
  }
  if (!same_prompt || !shorter || !same_output) {
    sim.Violation("attempt ", attempt.attempt, " at request ", attempt.request,
                  " goes on with other tokens than it has");
  }
  const bool together = attempt.choices > 1;
  const bool some_part = attempt.choices > 0 &&
                         spec.key().choice() + attempt.choices <= right.choices.size() &&
                         (!together || attempt.token_ids.size() == prompt);
  const v1::SamplingParams& sampling = spec.sampling();
  if (!some_part || sampling.seed() != right.seed ||
      static_cast<int>(sampling.max_tokens()) != right.max_tokens) {
    sim.Violation("attempt ", attempt.attempt, " at request ", attempt.request,
                  " samples in another way: ", sampling.ShortDebugString());
  }
  return attempt;
}

// The log probability of a prompt's token.
inline float SimLogprob(const SimRequest& right, size_t place) {
  return -static_cast<float>(Mix64(right.seed ^ place) % 4096) / 64;
}

// Those that computing the tokens [first, end) gives: each of the token behind it. None if the
// attempt tells none.
inline std::optional<internal::v1::PromptLogprobs> ScoresOf(const SimAttempt& attempt, int first,
                                                            int end) {
  end = std::min(end, attempt.prompt_length - 1);
  if (!attempt.scored || end <= first) return std::nullopt;
  internal::v1::PromptLogprobs scores;
  scores.set_first_token(static_cast<uint32_t>(first) + 1);
  for (int token = first; token < end; ++token) {
    scores.add_logprobs(SimLogprob(*attempt.right, static_cast<size_t>(token) + 1));
  }
  return scores;
}

// Whether computing that output of one of the attempt's choices kills the worker.
inline bool IsDeadly(const SimAttempt& attempt, int output) {
  const uint32_t first = attempt.key.choice();
  return attempt.right->deadly_output == output && attempt.right->deadly_choice >= first &&
         attempt.right->deadly_choice - first < attempt.choices;
}

// Whether the engine stands still that now computes that output of the attempt's choices: once in
// each attempt.
inline bool StopsEngine(const Sim& sim, const SimAttempt& attempt, int output) {
  SimRequest& right = *attempt.right;
  const uint32_t first = attempt.key.choice();
  const bool stops = !sim.healed && right.costly_output == output && right.deadly_choice >= first &&
                     right.deadly_choice - first < attempt.choices;
  return stops && right.stopped.insert(attempt.attempt).second;
}

// The output of a choice that follows `tokens` tokens of its sequence, where its grammar stands
// behind them. It is wrong if what it was computed from has rows of `forgers`.
inline internal::v1::OutputToken TokenAfter(const SimAttempt& attempt, const SimGrammar& grammar,
                                            uint32_t choice, int tokens, Forgers forgers = 0) {
  const int32_t id = attempt.right->choices[choice].content->NextToken(tokens, grammar);
  const int index = tokens - attempt.prompt_length;
  internal::v1::OutputToken token;
  token.set_output_index(static_cast<uint32_t>(index));
  token.mutable_token()->set_token_id(static_cast<uint32_t>(forgers == 0 ? id : id + kSimWrong));
  token.set_choice(choice);
  const bool stops = id < kSimEndTokens;
  if (stops || index + 1 == attempt.right->max_tokens) {
    token.set_ends_sequence(true);
    token.set_finish_reason(stops ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
  }
  return token;
}

// What came of guesses, as a worker tells it with an output of the choice.
inline void NoteGuesses(SimRequest::Choice& choice, const internal::v1::OutputToken& token) {
  SimRequest::Choice::Guessed& guessed = choice.guessed[static_cast<int>(token.output_index())];
  guessed.accepted.Add(token.guessed() ? 1 : 0);
  guessed.refused.Add(token.refused_guesses());
}

// I1, I5: these tokens of one of the attempt's choices have exactly their K and V in the layer, but
// where somebody forged them: returns who.
inline Forgers CheckRows(Sim& sim, const SimAttempt& attempt, uint32_t choice,
                         const KvBlocks& memory, const LayerTokens& rows, const char* when) {
  const KvContent& right = *attempt.right->choices[choice].content;
  const std::optional<Forgers> forgers =
      right.ForgersOf(memory, rows.layer, rows.tokens.begin, rows.tokens.end);
  if (!forgers.has_value()) {
    sim.Violation("wrong KV in layer ", rows.layer, " of request ", attempt.request, " ", when);
  }
  return forgers.value_or(0);
}

// The same of all that the token behind the first `tokens` ones, or a later one, sees of these.
inline Forgers CheckSeen(Sim& sim, const SimAttempt& attempt, uint32_t choice,
                         const KvBlocks& memory, int tokens, const char* when) {
  Forgers all = 0;
  for (int layer = 0; layer < kSimLayers; ++layer) {
    const LayerTokens seen{layer, {SimFirstSeen(layer, tokens), tokens}};
    all |= CheckRows(sim, attempt, choice, memory, seen, when);
  }
  return all;
}

// The same of all that the hand-off of the attempt's tokens has carried of its first `tokens` ones.
inline void CheckHandedOff(Sim& sim, const SimAttempt& attempt, const KvBlocks& memory, int tokens,
                           const char* when) {
  const auto all = static_cast<int>(attempt.token_ids.size());
  for (int layer = 0; layer < kSimLayers; ++layer) {
    const LayerTokens carried{layer, {SimFirstHandedOff(layer, all), tokens}};
    CheckRows(sim, attempt, attempt.key.choice(), memory, carried, when);
  }
}

// The open of a prefill worker; now and then one that runs something else.
inline internal::v1::PushOpen SimOpen(Sim& sim, const SimAttempt& attempt, const KvLayout& layout) {
  internal::v1::PushOpen open;
  *open.mutable_key() = attempt.key;
  open.set_capability(attempt.capability);
  *open.mutable_identity() = SimIdentity();
  *open.mutable_shape() = SimShape(layout);
  open.set_wire_dtype("f16");
  open.set_token_count(static_cast<uint32_t>(attempt.token_ids.size()));
  const std::vector<uint64_t> hashes = PageHashes(open.identity(), "", "cpu", attempt.token_ids);
  open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
  if (sim.Strikes(Fault::kOtherModel)) {
    open.mutable_identity()->set_weights_digest(std::string(32, 'v'));
  }
  if (sim.Strikes(Fault::kOtherShape)) {
    if (sim.random.Chance(500)) {
      open.mutable_shape()->set_head_dim(8);
    } else {
      open.mutable_shape()->mutable_layer_states(kSimWindowLayer)->set_window(kSimWindow + 1);
    }
  }
  return open;
}

}  // namespace baton
