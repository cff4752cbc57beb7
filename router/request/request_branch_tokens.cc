// The part of a branch that takes tokens: check, log, deliver, end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/numerics.h"
#include "common/rpc/status.h"
#include "router/request/request_branch.h"
#include "router/request/request_errors.h"

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

bool RequestBranch::AllEnded() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [this](const Progress& progress) { return Ended(progress); });
}

RequestBranch::Progress* RequestBranch::Find(uint32_t choice) {
  const auto found =
      std::find_if(choices_.begin(), choices_.end(),
                   [choice](const Progress& progress) { return progress.choice == choice; });
  return found == choices_.end() ? nullptr : &*found;
}

void RequestBranch::TakeToken(const OutputToken& token, Source source) {
  if (absl::Status status = CheckToken(token, source); !status.ok()) {
    return request_.Fail(std::move(status));
  }
  Progress& progress = *Find(token.choice());
  if (source == Source::kDecode) {
    ++progress.next_from_decode;
    RunsAgain();
    if (!committed_) Committed(local());  // it decodes, so it has the prompt
  } else {
    progress.prefill_copy_seen = true;
  }
  const bool copy = token.output_index() < Log(progress).size();
  if (copy || Ended(progress)) return;
  if (request_.numerics.empty()) {
    request_.numerics = local() ? workers_.decode_numerics : workers_.prefill_numerics;
  }
  request_.Append(token);
  if (Ended(progress)) ChoiceEnded(progress);
  if (decode_end_.has_value() && prompt_computed() && !done() && !finishing()) {
    BreakDecode(*decode_end_);
  }
}

absl::Status RequestBranch::CheckToken(const OutputToken& token, Source source) {
  const bool from_prefill = source == Source::kPrefill;
  const auto broken = [&](const std::string& what) {
    return ProtocolBroken(from_prefill ? kStagePrefill : kStageDecode,
                          from_prefill ? workers_.prefill->name : workers_.decode->name, what);
  };
  if (!from_prefill && !accepted_) return broken("a token before it accepted the request");
  const Progress* progress = Find(token.choice());
  if (progress == nullptr) {
    return broken(absl::StrCat("a token of choice ", token.choice(), ", which is not one of its ",
                               choices_.size()));
  }
  const OutputTokens& log = Log(*progress);
  const size_t index = token.output_index();
  const size_t expected = from_prefill ? progress->base : progress->next_from_decode;
  if (index != expected || (from_prefill && progress->prefill_copy_seen)) {
    return broken(absl::StrCat("output index ", index, " where ", expected,
                               index < expected ? " was next (doubled)" : " was next (missing)"));
  }
  if (index < log.size()) {
    if (SameToken(log[index], token)) return absl::OkStatus();
    return broken(absl::StrCat("its copy of output ", index, " is token ", token.token().token_id(),
                               ", the other worker's ", log[index].token().token_id()));
  }
  if (Ended(*progress)) {
    return request_.choices[progress->choice].output.ended_by_stop_string()
               ? absl::OkStatus()  // it had not heard of the stop yet
               : broken(absl::StrCat("output ", index, " after the last one"));
  }
  if (token.token().token_id() >= request_.table.vocab_size()) {
    return broken(absl::StrCat("token id ", token.token().token_id(), " outside the vocabulary"));
  }
  const bool last = index + 1 >= request_.spec.sampling.max_tokens();
  if (last && !token.ends_sequence()) return broken("it does not stop at max_tokens");
  if (token.ends_sequence() && token.finish_reason() != v1::FINISH_REASON_STOP &&
      token.finish_reason() != v1::FINISH_REASON_LENGTH) {
    return broken("a last token without a finish reason");
  }
  return absl::OkStatus();
}

void RequestBranch::ChoiceEnded(const Progress& progress) {
  const bool worker_knows = Log(progress).back().ends_sequence();
  const bool all_ended = AllEnded();
  const bool decoding = committed_ || local();
  // A stop string in the first token: the hand-off under way is for nothing, unless other choices
  // go on.
  if (!worker_knows && decode_open_ && (decoding || !all_ended)) {
    SendToDecode stop{.attempt = attempt_, .message = {}};
    stop.message.mutable_stop()->set_choice(progress.choice);
    request_.Ask(std::move(stop));
  }
  if (!all_ended) return;
  phase_ = Phase::kFinishing;
  finish_by_ = request_.now + request_.options.timeline_wait;
  accept_by_ = commit_by_ = absl::InfiniteFuture();
  CancelTrial();
  if (!worker_knows && !decoding) return FinishNow();
  MaybeFinish();
}

bool RequestBranch::DecodeTold() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const Progress& progress) { return progress.decode_finished; });
}

void RequestBranch::MaybeFinish() {
  if (!finishing()) return;
  const bool decoding = (committed_ || local()) && decode_open_;
  const bool prefill_told = !prefill_open_ || prefill_finished_;
  if ((!decoding || DecodeTold()) && prefill_told) FinishNow();
}

void RequestBranch::FinishNow() {
  const bool decode_told = DecodeTold();
  const bool decoded = committed_ || local();
  // What one worker gave is as exact as its numerics promise; of a hand-off the decode worker said
  // so when it committed, and says so again at its end, if it lives to say it.
  const bool exact =
      decoded ? committed_exact_ && told_exact_ : PromisesBits(workers_.prefill_numerics);
  request_.exact &= exact && exact_so_far_;
  if (decode_open_ && decode_told) {
    decode_open_ = false;
    request_.Ask(CloseDecode{attempt_});
  }
  if (prefill_finished_) prefill_open_ = false;  // that call ends by itself
  CancelCalls();
  phase_ = Phase::kDone;
  finish_by_ = absl::InfiniteFuture();
}

}  // namespace baton
