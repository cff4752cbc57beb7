#include "router/request/request_state.h"

#include <algorithm>

#include "common/base/failpoint.h"
#include "common/base/numerics.h"
#include "common/rpc/duration.h"
#include "common/rpc/limits.h"

namespace baton {

using internal::v1::OutputToken;

RequestState::RequestState(RequestSpec request, const TokenTable& token_table,
                           const RequestMachineOptions& machine_options)
    : spec(std::move(request)),
      table(token_table),
      options(machine_options),
      lacks_prompt_logprobs(spec.sampling.has_prompt_logprobs()) {
  for (uint32_t index = 0; index < spec.sampling.n(); ++index) {
    choices.push_back(
        {.output = ChoiceOutput(table, spec.sampling,
                                {.choice = index,
                                 .stream = spec.stream,
                                 .return_token_ids = spec.return_token_ids,
                                 .echoed = spec.echo ? &spec.prompt_token_ids : nullptr,
                                 .no_output = spec.no_output}),
         .log = {}});
  }
  usage.set_prompt_tokens(static_cast<uint32_t>(spec.prompt_token_ids.size()));
}

void RequestState::Append(const OutputToken& token) {
  Choice& choice = choices[token.choice()];
  BATON_FAILPOINT("router.before_token");
  choice.log.push_back(token);
  Gained();
  // tests/planted_bugs: router_guesses_of_one_choice
  usage.set_accepted_prediction_tokens(usage.accepted_prediction_tokens() + token.guessed());
  usage.set_rejected_prediction_tokens(usage.rejected_prediction_tokens() +
                                       token.refused_guesses());
  if (!timings.has_time_to_first_token()) {
    *timings.mutable_time_to_first_token() = DurationToProto(now - spec.received);
  }
  v1::GenerateChunk chunk = choice.output.Push(token);
  if (ChoiceOutput::IsEmpty(chunk)) return;
  Deliver deliver;
  deliver.response.set_request_id(spec.client_request_id);
  *deliver.response.mutable_chunk() = std::move(chunk);
  Ask(std::move(deliver));
}

PromptLogprobs RequestState::NewPromptLogprobs() const {
  const auto likeliest = static_cast<size_t>(spec.sampling.prompt_logprobs());
  return PromptLogprobs({.prompt_tokens = spec.prompt_token_ids.size(),
                         .likeliest = std::min(likeliest, table.vocab_size()),
                         .vocab_size = table.vocab_size()});
}

void RequestState::TakePromptLogprobs(PromptLogprobs logprobs) {
  // tests/planted_bugs: router_prompt_logprobs_twice
  lacks_prompt_logprobs = false;
  if (!spec.stream) {
    prompt_logprobs = std::move(logprobs);
    return;
  }
  for (size_t next = 0; next < spec.prompt_token_ids.size();) {
    Deliver deliver;
    deliver.response.set_request_id(spec.client_request_id);
    auto& tokens = *deliver.response.mutable_chunk()->mutable_prompt_logprobs();
    tokens = logprobs.ForClient(spec.prompt_token_ids, table, next, kPromptLogprobChunkBytes);
    next += static_cast<size_t>(tokens.size());
    Ask(std::move(deliver));
  }
}

const std::string& NumericsOfPrompt(const WorkersChosen& workers) {
  return workers.prefill.has_value() ? workers.prefill_numerics : workers.decode_numerics;
}

bool RequestState::Continues(const WorkersChosen& workers) const {
  if (numerics.empty()) return true;
  return NumericsOfPrompt(workers) == numerics && Numerics(numerics).bits_are_equal();
}

void RequestState::TellWorkers(const WorkersChosen& workers) {
  system_fingerprint = workers.system_fingerprint;
  timings.set_local_prefill(!workers.prefill.has_value());
  if (workers.prefill.has_value()) timings.set_prefill_worker(workers.prefill->name);
  if (workers.decode.has_value()) timings.set_decode_worker(workers.decode->name);
}

void RequestState::CountQueue(absl::Duration waited) {
  *timings.mutable_queue() = DurationToProto(DurationFromProto(timings.queue()) + waited);
}

void RequestState::CountCachedTokens(uint32_t tokens) {
  if (std::exchange(cached_tokens_known, true)) return;
  usage.set_cached_tokens(std::min(tokens, usage.prompt_tokens()));
}

Complete RequestState::MakeComplete() {
  timings.set_exact(exact);
  *timings.mutable_total() = DurationToProto(now - spec.received);
  for (const Choice& choice : choices) {
    usage.set_completion_tokens(usage.completion_tokens() + choice.output.completion_tokens());
  }
  usage.set_total_tokens(usage.prompt_tokens() + usage.completion_tokens());
  Complete complete;
  for (Choice& choice : choices) {
    v1::GenerateResponse& response = complete.responses.emplace_back();
    response.set_request_id(spec.client_request_id);
    *response.mutable_complete() = choice.output.TakeComplete();
    *response.mutable_complete()->mutable_timings() = timings;
    response.mutable_complete()->set_system_fingerprint(system_fingerprint);
    response.mutable_complete()->set_seed(spec.sampling.seed());
  }
  if (prompt_logprobs.has_value()) {
    *complete.responses.front().mutable_complete()->mutable_prompt_logprobs() =
        prompt_logprobs->ForClient(spec.prompt_token_ids, table, 0, SIZE_MAX);
  }
  *complete.responses.back().mutable_complete()->mutable_usage() = usage;
  return complete;
}

void RequestState::Fail(absl::Status status) {
  if (!failure.has_value()) failure = std::move(status);
}

}  // namespace baton
