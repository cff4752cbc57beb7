#include "router/request/attempt_requests.h"

#include <algorithm>

namespace baton {
namespace {

using internal::v1::OutputToken;

// The tokens that each choice of the attempt has: they part only after the first.
const std::vector<OutputToken>& CommonLog(const RequestState& request, const Attempt& attempt) {
  return request.choices[attempt.choices.front().choice].log;
}

// tests/planted_bugs: sequence_of_an_attempt
internal::v1::SequenceSpec MakeSequence(const RequestState& request, const Attempt& attempt,
                                        uint32_t number, const WorkersChosen& workers) {
  const RequestSpec& spec = request.spec;
  internal::v1::SequenceSpec sequence;
  sequence.mutable_key()->set_request_id_high(spec.id_high);
  sequence.mutable_key()->set_request_id_low(spec.id_low);
  sequence.mutable_key()->set_choice(attempt.choices.front().choice);
  sequence.mutable_key()->set_attempt(number);
  sequence.mutable_token_ids()->Add(spec.prompt_token_ids.begin(), spec.prompt_token_ids.end());
  for (const OutputToken& token : CommonLog(request, attempt)) {
    sequence.add_token_ids(token.token().token_id());
  }
  sequence.set_prompt_length(static_cast<uint32_t>(spec.prompt_token_ids.size()));
  *sequence.mutable_sampling() = spec.sampling;
  sequence.mutable_sampling()->set_n(static_cast<uint32_t>(attempt.choices.size()));
  if (!request.lacks_prompt_logprobs) sequence.mutable_sampling()->clear_prompt_logprobs();
  sequence.set_cache_salt(spec.cache_salt);
  sequence.set_capability(workers.capability);
  sequence.set_isolate(attempt.isolate);
  sequence.set_speculative(attempt.isolate ? v1::SPECULATIVE_NONE : spec.speculative);
  if (spec.grammar != nullptr && !spec.no_output) sequence.set_grammar(*spec.grammar);
  if (spec.deadline == absl::InfiniteFuture()) return sequence;
  const int64_t left = absl::ToInt64Milliseconds(spec.deadline - request.now);
  sequence.set_remaining_ms(static_cast<uint32_t>(std::clamp<int64_t>(left, 1, UINT32_MAX)));
  return sequence;
}

}  // namespace

WorkerNeeds NeedsOf(const RequestState& request, const Attempt& attempt) {
  const auto output_tokens = static_cast<uint32_t>(CommonLog(request, attempt).size());
  const uint32_t remaining = request.spec.sampling.max_tokens() - output_tokens;
  WorkerNeeds needs = attempt.needs;
  needs.decode = remaining > 1;
  needs.choices = static_cast<uint32_t>(attempt.choices.size());
  needs.prompt_tokens = static_cast<uint32_t>(request.spec.prompt_token_ids.size()) + output_tokens;
  needs.whole_prompt = request.lacks_prompt_logprobs;
  needs.max_total_tokens = needs.prompt_tokens + remaining;
  needs.model = request.model;
  return needs;
}

OpenDecode MakeOpenDecode(const RequestState& request, const Attempt& attempt, uint32_t number,
                          const WorkersChosen& workers) {
  OpenDecode open{.attempt = number, .worker_id = workers.decode->id, .start = {}};
  *open.start.mutable_start()->mutable_sequence() = MakeSequence(request, attempt, number, workers);
  open.start.mutable_start()->set_prefill_locally(!workers.prefill.has_value());
  // tests/planted_bugs: grammar_for_the_prefill_alone
  if (workers.prefill.has_value()) *open.start.mutable_start()->mutable_pusher() = workers.pusher;
  return open;
}

StartPrefill MakeStartPrefill(const RequestState& request, const Attempt& attempt,
                              const internal::v1::DecodeAccepted* accepted) {
  const WorkersChosen& workers = attempt.workers;
  StartPrefill start{.attempt = attempt.number, .worker_id = workers.prefill->id, .request = {}};
  *start.request.mutable_sequence() = MakeSequence(request, attempt, attempt.number, workers);
  if (accepted != nullptr) {
    start.request.set_decode_address(workers.decode_address);
    *start.request.mutable_decode_identity() = workers.decode_identity;
    *start.request.mutable_decode_shape() = accepted->shape();
    start.request.set_decode_cached_tokens(accepted->cached_tokens());
  }
  return start;
}

SendToDecode MakeStop(const Attempt& attempt, uint32_t choice) {
  SendToDecode stop{.attempt = attempt.number, .message = {}};
  stop.message.mutable_stop()->set_choice(choice);
  return stop;
}

SendToDecode MakeFlow(const Attempt& attempt, bool paused) {
  SendToDecode flow{.attempt = attempt.number, .message = {}};
  flow.message.mutable_flow()->set_paused(paused);
  return flow;
}

}  // namespace baton
