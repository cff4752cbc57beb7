// The part of the request machine that takes tokens: check, log, deliver, end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/numerics.h"
#include "common/rpc/status.h"
#include "router/request_errors.h"
#include "router/request_machine.h"
#include "router/timeline.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

bool SameToken(const OutputToken& a, const OutputToken& b) {
  if (a.token().token_id() != b.token().token_id() || a.ends_sequence() != b.ends_sequence()) {
    return false;
  }
  if (a.ends_sequence() && a.finish_reason() != b.finish_reason()) return false;
  return !a.token().has_logprob() || !b.token().has_logprob() ||
         a.token().logprob() == b.token().logprob();
}

}  // namespace

void RequestMachine::TakeToken(const OutputToken& token, Source source) {
  if (absl::Status status = CheckToken(token, source); !status.ok()) {
    return FailWith(std::move(status));
  }
  Choice& choice = choices_[token.choice()];
  if (source == Source::kDecode) {
    ++choice.next_from_decode;
    if (!committed_) Committed(timings_.local_prefill());  // it decodes, so it has the prompt
  } else {
    choice.prefill_copy_seen = true;
  }
  const bool copy = token.output_index() < choice.log.size();
  if (copy || choice.output.ended()) return;
  Append(choice, token);
  if (decode_end_.has_value() && !done() && phase_ != Phase::kFinishing) BreakDecode(*decode_end_);
}

absl::Status RequestMachine::CheckToken(const OutputToken& token, Source source) {
  const bool from_prefill = source == Source::kPrefill;
  const auto broken = [&](const std::string& what) {
    return ProtocolBroken(from_prefill ? kStagePrefill : kStageDecode,
                          from_prefill ? workers_.prefill->name : workers_.decode->name, what);
  };
  if (!from_prefill && !accepted_) return broken("a token before it accepted the request");
  if (token.choice() >= choices_.size()) {
    return broken(absl::StrCat("a token of choice ", token.choice(), " of ", choices_.size()));
  }
  const Choice& choice = choices_[token.choice()];
  const size_t index = token.output_index();
  const size_t expected = from_prefill ? choice.base : choice.next_from_decode;
  if (index != expected || (from_prefill && choice.prefill_copy_seen)) {
    return broken(absl::StrCat("output index ", index, " where ", expected,
                               index < expected ? " was next (doubled)" : " was next (missing)"));
  }
  if (index < choice.log.size()) {
    if (SameToken(choice.log[index], token)) return absl::OkStatus();
    return broken(absl::StrCat("its copy of output ", index, " is token ", token.token().token_id(),
                               ", the other worker's ", choice.log[index].token().token_id()));
  }
  if (choice.output.ended()) {
    return choice.output.ended_by_stop_string()
               ? absl::OkStatus()  // it had not heard of the stop yet
               : broken(absl::StrCat("output ", index, " after the last one"));
  }
  if (token.token().token_id() >= table_.vocab_size()) {
    return broken(absl::StrCat("token id ", token.token().token_id(), " outside the vocabulary"));
  }
  const bool last = index + 1 >= spec_.sampling.max_tokens();
  if (last && !token.ends_sequence()) return broken("it does not stop at max_tokens");
  if (token.ends_sequence() && token.finish_reason() != v1::FINISH_REASON_STOP &&
      token.finish_reason() != v1::FINISH_REASON_LENGTH) {
    return broken("a last token without a finish reason");
  }
  return absl::OkStatus();
}

void RequestMachine::Append(Choice& choice, const OutputToken& token) {
  if (numerics_.empty()) {
    numerics_ = workers_.prefill.has_value() ? workers_.prefill_numerics : workers_.decode_numerics;
  }
  choice.log.push_back(token);
  if (!timings_.has_time_to_first_token()) {
    SetDuration(timings_.mutable_time_to_first_token(), now_ - spec_.received);
  }
  v1::GenerateChunk chunk = choice.output.Push(token);
  if (!ChoiceOutput::IsEmpty(chunk)) {
    Deliver deliver;
    deliver.response.set_request_id(spec_.client_request_id);
    *deliver.response.mutable_chunk() = std::move(chunk);
    Ask(std::move(deliver));
  }
  if (choice.output.ended()) ChoiceEnded(choice, token.choice());
}

void RequestMachine::ChoiceEnded(const Choice& choice, uint32_t index) {
  const bool worker_knows = choice.log.back().ends_sequence();
  const bool all_ended = std::all_of(choices_.begin(), choices_.end(),
                                     [](const Choice& c) { return c.output.ended(); });
  const bool decoding = committed_ || timings_.local_prefill();
  if (!worker_knows && decoding && decode_open_) {
    SendToDecode stop;
    stop.message.mutable_stop()->set_choice(index);
    Ask(std::move(stop));
  }
  if (!all_ended) return;
  phase_ = Phase::kFinishing;
  complete_by_ = now_ + options_.timeline_wait;
  accept_by_ = commit_by_ = absl::InfiniteFuture();
  // A stop string in the first token: the hand-off under way is for nothing.
  if (!worker_knows && !decoding) return CompleteNow();
  MaybeComplete();
}

void RequestMachine::MaybeComplete() {
  if (phase_ != Phase::kFinishing) return;
  const bool decoding = (committed_ || timings_.local_prefill()) && decode_open_;
  const bool decode_told =
      !decoding || std::all_of(choices_.begin(), choices_.end(),
                               [](const Choice& choice) { return choice.decode_finished; });
  const bool prefill_told = !prefill_open_ || prefill_finished_;
  if (decode_told && prefill_told) CompleteNow();
}

void RequestMachine::CompleteNow() {
  const bool decode_told = std::all_of(choices_.begin(), choices_.end(),
                                       [](const Choice& choice) { return choice.decode_finished; });
  const bool decoded = committed_ || timings_.local_prefill();
  // What one worker gave is as exact as its numerics promise; of a hand-off the decode worker said
  // so when it committed, and says so again at its end, if it lives to say it.
  const bool exact = decoded ? committed_exact_ && (!decode_told || timings_.exact())
                             : PromisesBits(workers_.prefill_numerics);
  timings_.set_exact(exact && exact_so_far_);
  if (decode_open_ && decode_told) {
    decode_open_ = false;
    Ask(CloseDecode{});
  }
  if (prefill_finished_) prefill_open_ = false;  // that call ends by itself
  CancelCalls();

  SetDuration(timings_.mutable_total(), now_ - spec_.received);
  for (const Choice& choice : choices_) {
    usage_.set_completion_tokens(usage_.completion_tokens() + choice.output.completion_tokens());
  }
  usage_.set_total_tokens(usage_.prompt_tokens() + usage_.completion_tokens());
  Complete complete;
  for (Choice& choice : choices_) {
    v1::GenerateResponse& response = complete.responses.emplace_back();
    response.set_request_id(spec_.client_request_id);
    *response.mutable_complete() = choice.output.TakeComplete();
    *response.mutable_complete()->mutable_timings() = timings_;
    response.mutable_complete()->set_system_fingerprint(workers_.system_fingerprint);
  }
  *complete.responses.back().mutable_complete()->mutable_usage() = usage_;
  phase_ = Phase::kDone;
  Ask(std::move(complete));
}

}  // namespace baton
