#include "router/page/request_history.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/rpc/duration.h"

namespace baton {
namespace {

using internal::v1::DecodeResponse;
using internal::v1::PrefillResponse;

// Most spans of each kind, as prefill.proto promises.
constexpr int kMaxSpans = 256;

void SawChunk(uint32_t tokens, absl::Duration at, TryRecord& attempt) {
  if (!attempt.chunks.empty() && attempt.chunks.back().tokens >= tokens) return;
  if (attempt.chunks.size() == kMaxChunksSeen) attempt.chunks.pop_back();
  attempt.chunks.push_back({.tokens = tokens, .at = at});
}

// Drops spans beyond the bound of the protocol.
template <typename Span>
void Cut(google::protobuf::RepeatedPtrField<Span>& spans) {
  if (spans.size() > kMaxSpans) spans.DeleteSubrange(kMaxSpans, spans.size() - kMaxSpans);
}

void TakeAccount(const internal::v1::DecodeFinished& finished, TryRecord& attempt) {
  DecodeAccount& account = attempt.decode.has_value() ? *attempt.decode : attempt.decode.emplace();
  const auto longer = [](absl::Duration& kept, const google::protobuf::Duration& told) {
    kept = std::max(kept, DurationFromProto(told));
  };
  longer(account.queue, finished.queue());
  longer(account.decode, finished.decode());
  longer(account.prefill_queue, finished.prefill_queue());
  longer(account.prefill, finished.prefill());
}

std::string IdOf(const RequestSpec& spec) {
  return !spec.client_request_id.empty() ? spec.client_request_id
                                         : absl::StrFormat("%016x%016x", spec.id_high, spec.id_low);
}

// The worker at which an attempt that broke in its decoding, or before, most likely broke.
const std::string& SuspectOf(const TryRecord& attempt) {
  return attempt.committed.has_value() || attempt.local_prefill ? attempt.decode_worker
                                                                : attempt.prefill_worker;
}

}  // namespace

RecordedRequest::RecordedRequest(const RequestSpec& spec, double received, EventLog& events,
                                 FleetHistory& fleet)
    : id_(IdOf(spec)), received_(spec.received), events_(events), fleet_(fleet) {
  record_.id = id_;
  record_.received = received;
  record_.prompt_tokens = static_cast<uint32_t>(spec.prompt_token_ids.size());
}

TryRecord* RecordedRequest::Find(uint32_t attempt) {
  for (TryRecord& one : record_.tries) {
    if (one.number == attempt) return &one;
  }
  return nullptr;
}

void RecordedRequest::Enter(RequestStage stage, absl::Duration at) {
  if (record_.stage == stage) return;
  record_.stage = stage;
  record_.stage_since = at;
}

void RecordedRequest::Chosen(uint32_t attempt, const std::string& prefill_worker,
                             const std::string& decode_worker, const RequestMachine& machine,
                             absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const absl::Duration at = now - received_;
  const bool first = record_.tries.empty();
  // A try beside one that runs on has not waited.
  const absl::Duration begun = first                                  ? absl::ZeroDuration()
                               : std::exchange(break_follows_, false) ? broken_
                                                                      : at;
  if (record_.tries.size() == kMaxTries) record_.tries.erase(record_.tries.begin());
  record_.tries.push_back({.number = attempt,
                           .begun = begun,
                           .local_prefill = prefill_worker.empty(),
                           .prefill_worker = prefill_worker,
                           .decode_worker = decode_worker});
  record_.prefill_worker = prefill_worker;
  record_.decode_worker = decode_worker;
  if (!first && machine.accepted_tokens() > 0) {
    events_.Add({.kind = FleetEvent::Kind::kResumed,
                 .worker = decode_worker.empty() ? prefill_worker : decode_worker,
                 .request = id_,
                 .text = absl::StrCat("Attempt ", attempt, " goes on after ",
                                      machine.accepted_tokens(), " tokens.")});
  }
}

void RecordedRequest::Handled(const RequestMachine& machine, const RequestEvent& event,
                              absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const absl::Duration at = now - received_;
  const size_t before = std::exchange(record_.output_tokens, machine.accepted_tokens());
  if (before == 0 && record_.output_tokens > 0) {
    fleet_.SawFirstToken(DurationFromProto(machine.timings().time_to_first_token()));
  }
  const auto* decode = std::get_if<DecodeMessage>(&event);
  if (decode != nullptr && decode->message.has_tokens()) {
    if (record_.stage == RequestStage::kPrefill) Enter(RequestStage::kDecode, at);
    return;
  }
  if (decode != nullptr) On(*decode, at);
  if (const auto* prefill = std::get_if<PrefillMessage>(&event)) On(*prefill, at);
  if (machine.done()) return;
  record_.timings = machine.timings();
  CountQueue(event);
  EndTries(machine, at);
}

void RecordedRequest::On(const DecodeMessage& event, absl::Duration at) {
  TryRecord* const attempt = Find(event.attempt);
  if (attempt == nullptr || attempt->ended.has_value()) return;
  switch (event.message.event_case()) {
    case DecodeResponse::kAccepted:
      attempt->accepted = at;
      if (attempt->local_prefill) record_.cached_tokens = event.message.accepted().cached_tokens();
      return Enter(RequestStage::kPrefill, at);
    case DecodeResponse::kCommitted:
      attempt->committed = at;
      return Enter(RequestStage::kDecode, at);
    case DecodeResponse::kPrefillProgress:
      return SawChunk(event.message.prefill_progress().computed_tokens(), at, *attempt);
    case DecodeResponse::kFinished:
      return TakeAccount(event.message.finished(), *attempt);
    default:
      return;
  }
}

void RecordedRequest::On(const PrefillMessage& event, absl::Duration at) {
  TryRecord* const attempt = Find(event.attempt);
  if (attempt == nullptr || attempt->ended.has_value()) return;
  switch (event.message.event_case()) {
    case PrefillResponse::kStarted:
      attempt->started = at;
      record_.cached_tokens = event.message.started().cached_tokens();
      SawChunk(event.message.started().cached_tokens(), at, *attempt);
      return Enter(RequestStage::kPrefill, at);
    case PrefillResponse::kProgress:
      return SawChunk(event.message.progress().computed_tokens(), at, *attempt);
    case PrefillResponse::kFirstToken:
      if (!attempt->first_token.has_value()) attempt->first_token = at;
      if (record_.stage == RequestStage::kPrefill) Enter(RequestStage::kTransfer, at);
      return;
    case PrefillResponse::kFinished: {
      internal::v1::PrefillFinished& told = attempt->prefill.emplace(event.message.finished());
      Cut(*told.mutable_chunks());
      Cut(*told.mutable_transfers());
      return;
    }
    default:
      return;
  }
}

// Only these two events end a wait for workers, or a part of it.
void RecordedRequest::CountQueue(const RequestEvent& event) {
  const absl::Duration queue = DurationFromProto(record_.timings.queue());
  const absl::Duration more = queue - std::exchange(counted_queue_, queue);
  const auto* chosen = std::get_if<WorkersChosen>(&event);
  const auto* decode = std::get_if<DecodeMessage>(&event);
  TryRecord* const attempt = Find(chosen != nullptr   ? chosen->attempt
                                  : decode != nullptr ? decode->attempt
                                                      : 0);
  if (attempt != nullptr) attempt->queued += more;
}

// An attempt that runs no longer has broken, or another has taken its place.
void RecordedRequest::EndTries(const RequestMachine& machine, absl::Duration at) {
  const bool broke = machine.breaks() != breaks_;
  for (TryRecord& attempt : record_.tries) {
    if (attempt.ended.has_value() || machine.running(attempt.number)) continue;
    attempt.ended = at;
    attempt.failure =
        broke ? FailureText(machine.last_failure()) : "another worker took the request";
    if (!broke) continue;
    events_.Add(
        {.kind = FleetEvent::Kind::kRetried,
         .worker = SuspectOf(attempt),
         .request = id_,
         .text = absl::StrCat("Attempt ", attempt.number, " broke after ",
                              machine.accepted_tokens(), " tokens: ", attempt.failure, ".")});
  }
  if (!broke) return;
  breaks_ = machine.breaks();
  broken_ = at;
  break_follows_ = true;
  Enter(RequestStage::kQueued, at);
}

void RecordedRequest::Ended(const RequestMachine& machine, const absl::Status& status,
                            const std::string& finish, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const absl::Duration at = now - received_;
  record_.timings = machine.timings();
  record_.output_tokens =
      status.ok() ? machine.usage().completion_tokens() : machine.accepted_tokens();
  record_.finish = finish;
  record_.age = status.ok() ? DurationFromProto(record_.timings.total()) : at;
  if (!status.ok()) record_.error = FailureText(status);
  for (TryRecord& attempt : record_.tries) {
    if (attempt.ended.has_value()) continue;
    attempt.ended = at;
    attempt.failure = record_.error;
  }
  if (status.ok()) return Enter(RequestStage::kDone, at);
  const bool cancelled = absl::IsCancelled(status);
  Enter(cancelled ? RequestStage::kCancelled : RequestStage::kFailed, at);
  events_.Add(
      {.kind = cancelled ? FleetEvent::Kind::kCancelled : FleetEvent::Kind::kFailed,
       .worker = record_.tries.empty() ? "" : SuspectOf(record_.tries.back()),
       .request = id_,
       .text = cancelled ? absl::StrCat("The client left after ", record_.output_tokens, " tokens.")
                         : absl::StrCat("The request failed after ", record_.output_tokens,
                                        " tokens: ", record_.error, ".")});
}

RequestRecord RecordedRequest::Read(absl::Time now, bool whole) const {
  absl::MutexLock lock(&mutex_);
  RequestRecord copy = {.id = record_.id,
                        .received = record_.received,
                        .stage = record_.stage,
                        .stage_since = record_.stage_since,
                        .age = record_.ended() ? record_.age : now - received_,
                        .prompt_tokens = record_.prompt_tokens,
                        .cached_tokens = record_.cached_tokens,
                        .output_tokens = record_.output_tokens,
                        .prefill_worker = record_.prefill_worker,
                        .decode_worker = record_.decode_worker,
                        .finish = record_.finish,
                        .error = record_.error,
                        .timings = record_.timings};
  if (whole) copy.tries = record_.tries;
  return copy;
}

std::shared_ptr<RecordedRequest> RequestHistory::Begin(const RequestSpec& spec, absl::Time now) {
  const double received =
      absl::ToDoubleSeconds(absl::Now() - (now - spec.received) - absl::UnixEpoch());
  auto request = std::make_shared<RecordedRequest>(spec, received, events_, fleet_);
  absl::MutexLock lock(&mutex_);
  requests_.push_front(request);
  if (requests_.size() > kBound) requests_.pop_back();
  return request;
}

std::vector<RequestRecord> RequestHistory::Newest(absl::Time now) const {
  std::deque<std::shared_ptr<RecordedRequest>> requests;
  {
    absl::MutexLock lock(&mutex_);
    requests = requests_;
  }
  std::vector<RequestRecord> records;
  for (const auto& request : requests) records.push_back(request->Read(now, /*whole=*/false));
  return records;
}

std::optional<RequestRecord> RequestHistory::Find(absl::string_view id, absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& request : requests_) {
    if (request->id() == id) return request->Read(now, /*whole=*/true);
  }
  return std::nullopt;
}

}  // namespace baton
