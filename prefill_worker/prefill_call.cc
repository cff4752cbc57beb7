#include "prefill_worker/prefill_call.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/kv_type_name.h"
#include "common/base/status_macros.h"
#include "common/handoff/carried_tokens.h"
#include "common/handoff/kv_digest.h"
#include "common/handoff/kv_wire_choice.h"
#include "common/protocol/identity.h"
#include "common/protocol/layer_states.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/duration.h"
#include "common/rpc/status.h"
#include "common/worker/convert.h"

namespace baton {
namespace {

using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::PushAbort;

void CountPush(WorkerMetrics& metrics, const absl::Status& status, const SendReport& report) {
  metrics.TransferBytes(report.bytes_sent + report.bytes_resent);
  metrics.BytesResent(report.bytes_resent);
  if (!status.ok()) {
    metrics.TransferFailed(status);
  } else if (report.committed) {
    metrics.TransferDone({.duration = report.transfer,
                          .bytes = report.bytes_sent,
                          .exposed = report.exposed_transfer,
                          .bytes_saved = report.bytes_saved,
                          .messages = report.messages});
  }
}

// `pushed`: none where nothing was pushed.
PrefillResponse FinishedResponse(const SequenceFinished& computed, const ChunkSpans& chunks,
                                 const std::optional<SendReport>& pushed,
                                 const std::string& wire_dtype) {
  PrefillResponse response;
  internal::v1::PrefillFinished& finished = *response.mutable_finished();
  *finished.mutable_queue() = DurationToProto(computed.queue);
  *finished.mutable_compute() = DurationToProto(computed.prefill);
  chunks.Tell(finished);
  if (pushed.has_value()) {
    *finished.mutable_transfer() = DurationToProto(pushed->transfer);
    *finished.mutable_exposed_transfer() = DurationToProto(pushed->exposed_transfer);
    finished.set_bytes_sent(pushed->bytes_sent);
    finished.set_bytes_saved(pushed->bytes_saved);
    finished.set_bytes_resent(pushed->bytes_resent);
    finished.set_messages(pushed->messages);
    finished.set_wire_dtype(wire_dtype);
    TellSpans(pushed->spans, pushed->transfer_began, finished);
  }
  return response;
}

}  // namespace

PrefillCall::PrefillCall(Engine& engine, ChannelCache& channels, ThreadGroup& pushes,
                         const PrefillServiceOptions& options, std::function<void()> done)
    : engine_(engine),
      channels_(channels),
      pushes_(pushes),
      options_(options),
      done_(std::move(done)) {}

// The process may end as soon as its last call is done: nothing of gRPC's may be left then.
PrefillCall::~PrefillCall() {
  push_channels_.clear();
  done_();
}

void PrefillCall::Start(const PrefillRequest& request) {
  self_ = shared_from_this();
  if (absl::Status status = Submit(request); !status.ok()) End(status);
}

void PrefillCall::End(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  EndLocked(status);
}

absl::Status PrefillCall::Submit(const PrefillRequest& request) {
  const internal::v1::SequenceSpec& spec = request.sequence();
  absl::StatusOr<CheckedSequence> sequence = SequenceFromProto(
      spec, engine_.limits(), SequenceRequest::Mode::kPrefillOnly, options_.grammars);
  if (!sequence.ok()) return sequence.status();
  absl::MutexLock lock(&mutex_);
  if (outbox_.ended()) return absl::OkStatus();  // a sequence submitted now would never be released
  choices_ = sequence->request().choices;
  token_count_ = static_cast<int>(sequence->request().token_ids.size());
  if (!request.decode_address().empty()) {
    if (absl::Status status = ValidateShape(request.decode_shape(), "decode_shape"); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckSameIdentity(options_.identity, request.decode_identity());
        !status.ok()) {
      return status;
    }
    absl::StatusOr<ChannelCache::Channels> channels = channels_.Get(request.decode_address());
    if (!channels.ok()) return WhyNoChannel(channels.status(), request.decode_address());
    push_channels_ = *std::move(channels);
    decode_address_ = request.decode_address();
    absl::StatusOr<KvType> wire = AgreeOnShape(request.decode_shape());
    if (!wire.ok()) {
      return WithErrorInfo(wire.status(),
                           {kReasonModelMismatch,
                            kStageTransfer,
                            options_.worker_name,
                            {{"field", "shape"}, {"decode_address", decode_address_}}});
    }
    wire_dtype_ = KvTypeName(*wire);
    push_config_ = PushConfig(request, *wire, sequence->request().token_ids);
  }
  BATON_RETURN_IF_ERROR(BATON_FAILPOINT_STATUS("prefill.before_submit"));
  sequence_ = engine_.NextId();
  sequence->set_on_event([self = shared_from_this()](const SequenceEvent& event) {
    std::visit([&self](const auto& e) { self->On(e); }, event);
  });
  const absl::Status submitted = engine_.Submit(sequence_, *std::move(sequence));
  submitted_ = submitted.ok();
  BATON_FAILPOINT("prefill.submitted");
  return RefusedByEngine(submitted, options_.worker_name, kStagePrefill);
}

// An address that this worker's own flags forbid says nothing against either worker: it speaks
// against the link.
absl::Status PrefillCall::WhyNoChannel(const absl::Status& status,
                                       const std::string& decode_address) const {
  if (!absl::IsPermissionDenied(status)) return status;
  const absl::Status forbidden = absl::PermissionDeniedError(
      absl::StrCat("this prefill worker may not push to that decode worker: ", status.message()));
  return TransferFailed(WithPushFault(forbidden, kPushUnprotected), options_.worker_name,
                        {{"decode_address", decode_address}});
}

absl::StatusOr<KvType> PrefillCall::AgreeOnShape(const internal::v1::KvShape& decode_shape) const {
  BATON_RETURN_IF_ERROR(CheckSameLayerStates(options_.shape, decode_shape));
  return ChooseWireType(options_.shape, options_.kv_wire_dtype, options_.strict_kv_dtype,
                        decode_shape);
}

SendConfig PrefillCall::PushConfig(const PrefillRequest& request, KvType wire,
                                   std::vector<int32_t> token_ids) const {
  const internal::v1::SequenceSpec& spec = request.sequence();
  SendConfig config;
  *config.open.mutable_key() = spec.key();
  config.open.set_capability(spec.capability());
  *config.open.mutable_identity() = options_.identity;
  *config.open.mutable_shape() = options_.shape;
  config.open.set_wire_dtype(KvTypeName(wire));
  config.open.set_token_count(static_cast<uint32_t>(token_ids.size()));
  const std::vector<uint64_t> hashes =
      PageHashes(options_.identity, spec.cache_salt(),
                 StoredNumerics(options_.shape, wire, request.decode_shape()), token_ids);
  config.open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
  config.layout = engine_.cache().layout();
  config.token_ids = std::move(token_ids);
  config.limits = options_.limits;
  config.choices = choices_;
  return config;
}

void PrefillCall::On(const PrefillStarted& event) {
  absl::MutexLock lock(&mutex_);
  BATON_FAILPOINT("prefill.started");
  if (outbox_.ended()) return;
  started_ = SteadyNow();
  PrefillResponse response;
  response.mutable_started()->set_cached_tokens(static_cast<uint32_t>(event.cached_tokens));
  Queue(std::move(response));
  cached_tokens_ = event.cached_tokens;
  if (push_config_.has_value()) StartPush();
}

void PrefillCall::StartPush() {
  BATON_CHECK(engine_.cache().host_memory() == (options_.staging == nullptr),
              "staging for a device's memory");
  const auto self = shared_from_this();
  SendDriver::Callbacks callbacks;
  callbacks.finished = [self](const absl::Status& status, const SendReport& report) {
    self->OnPushFinished(status, report);
  };
  callbacks.release_blocks = [self] { self->engine_.Release(self->sequence_); };
  callbacks.drop_channel = [self] { self->channels_.Drop(self->decode_address_); };
  push_ = std::make_shared<SendDriver>(SendDriver::Options{
      .config = *std::move(push_config_),
      .cache_base = engine_.cache().Block(0),
      .staging = options_.staging,
      .block_generation = [&engine =
                               engine_](int32_t block) { return engine.BlockGeneration(block); },
      .channels = std::move(push_channels_),
      .callbacks = std::move(callbacks)});
  push_config_.reset();
  if (options_.metrics != nullptr) inflight_.emplace(*options_.metrics);
  pushes_.Start([push = push_] { push->Run(); });
}

void PrefillCall::On(const LayerComputed& event) {
  absl::MutexLock lock(&mutex_);
  BATON_FAILPOINT("prefill.layer_computed");
  if (push_ == nullptr || outbox_.ended()) return;
  // The blocks come with the first computed layer. The cached prefix is posted before it.
  if (cached_tokens_ > 0) {
    const int cached = std::exchange(cached_tokens_, 0);
    const int layers = engine_.cache().layout().layers;
    for (int layer = 0; layer < layers; ++layer) PostLayer({layer, {0, cached}}, event);
  }
  PostLayer({event.layer, {event.first_token, event.first_token + event.token_count}}, event);
}

// The table has blocks for the tokens that the hand-off carries. Of a layer with a window those
// before them may have gone to others already.
void PrefillCall::PostLayer(LayerTokens kv, const LayerComputed& event) {
  KvCache& cache = engine_.cache();
  const KvLayout& layout = cache.layout();
  kv.tokens.begin = std::max(kv.tokens.begin, FirstHandedOff(layout, kv.layer, token_count_));
  if (kv.tokens.size() <= 0) return;
  SendEvent::LayerReady ready{kv, {}};
  // For a cache in a device's memory the push makes the CRCs when it has staged the pages.
  if (cache.host_memory()) {
    for (const TokenRange page : PagesOf(kv.tokens)) {
      ready.page_crcs.push_back(
          cache.PageCrc(event.block_table[layout.TableIndex(kv.layer, page.begin)], kv.layer,
                        page.begin % layout.block_size / kKvPageTokens));
    }
  }
  push_->PostLayer(std::move(ready), event.block_table, event.copies_after);
}

void PrefillCall::On(const PromptScored& event) {
  std::vector<internal::v1::PromptLogprobs> messages = PromptLogprobsToProto(event);
  absl::MutexLock lock(&mutex_);
  for (internal::v1::PromptLogprobs& message : messages) {
    PrefillResponse response;
    *response.mutable_prompt_logprobs() = std::move(message);
    Queue(std::move(response));
  }
}

void PrefillCall::On(const ChunkComputed& event) {
  absl::MutexLock lock(&mutex_);
  BATON_FAILPOINT("prefill.chunk_computed");
  if (outbox_.ended()) return;
  const absl::Time now = SteadyNow();
  chunks_.Add(static_cast<uint32_t>(event.end_token), now - started_);
  if (push_ != nullptr) push_->Post(SendEvent::ChunkReady{event.end_token, now});
  const PrefillResponse* last = outbox_.last();
  if (last != nullptr && last->has_progress()) outbox_.DropLast();
  PrefillResponse response;
  response.mutable_progress()->set_computed_tokens(static_cast<uint32_t>(event.end_token));
  Queue(std::move(response));
}

void PrefillCall::On(const TokenProduced& event) {
  absl::MutexLock lock(&mutex_);
  BATON_FAILPOINT("prefill.before_first_token");
  if (outbox_.ended()) return;
  PrefillResponse response;
  *response.mutable_first_token() = OutputTokenToProto(event.token, event.choice);
  first_tokens_.push_back(response.first_token());
  Queue(std::move(response));
  BATON_FAILPOINT("prefill.after_first_token");
  if (push_ == nullptr || first_tokens_.size() < static_cast<size_t>(choices_)) return;
  const bool all_end =
      std::all_of(first_tokens_.begin(), first_tokens_.end(),
                  [](const internal::v1::OutputToken& token) { return token.ends_sequence(); });
  if (all_end) return push_->Post(SendEvent::Abort{PushAbort::REASON_FINISHED_AT_FIRST_TOKEN});
  for (internal::v1::OutputToken& token : first_tokens_) {
    push_->Post(SendEvent::FirstToken{std::move(token)});
  }
}

// The push gets a sign of life, too: it may be silent while another prompt is computed.
void PrefillCall::On(const SequenceAlive&) {
  absl::MutexLock lock(&mutex_);
  if (outbox_.ended()) return;
  if (push_ != nullptr) push_->Post(SendEvent::Alive{});
  if (std::exchange(queued_, false) || outbox_.last() != nullptr) return;
  PrefillResponse response;
  response.mutable_alive();
  Queue(std::move(response));
  queued_ = false;
}

void PrefillCall::On(const SequenceFinished& event) {
  absl::MutexLock lock(&mutex_);
  computed_ = event;
  MaybeFinish();
}

void PrefillCall::On(const SequenceFailed& event) {
  absl::MutexLock lock(&mutex_);
  EndLocked(
      WithErrorInfo(event.status, {"SEQUENCE_FAILED", kStagePrefill, options_.worker_name, {}}));
}

void PrefillCall::OnPushFinished(const absl::Status& status, const SendReport& report) {
  absl::MutexLock lock(&mutex_);
  BATON_FAILPOINT("prefill.push_finished");
  if (options_.metrics != nullptr) CountPush(*options_.metrics, status, report);
  inflight_.reset();
  pushed_ = report;
  if (status.ok()) return MaybeFinish();
  EndLocked(TransferFailed(status, options_.worker_name, {{"decode_address", decode_address_}}));
}

void PrefillCall::MaybeFinish() {
  if (outbox_.ended() || !computed_.has_value()) return;
  if (push_ != nullptr && !pushed_.has_value()) return;
  BATON_FAILPOINT("prefill.before_finished");
  if (options_.metrics != nullptr) {
    options_.metrics->SequenceDone(computed_->queue, computed_->prefill, absl::ZeroDuration());
  }
  Queue(FinishedResponse(*computed_, chunks_, pushed_, wire_dtype_));
  EndLocked(absl::OkStatus());
}

void PrefillCall::Queue(PrefillResponse response) {
  queued_ = true;
  outbox_.Push(std::move(response));
  outbox_.WriteNext(*this);
}

void PrefillCall::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  outbox_.Written();
  if (!ok) EndLocked(absl::CancelledError("the router is gone"));
  outbox_.WriteNext(*this);
}

void PrefillCall::EndLocked(const absl::Status& status) {
  if (outbox_.ended()) return;
  outbox_.End(ToGrpcStatus(status));
  if (!status.ok()) outbox_.DropAll();
  EndSequence(absl::IsCancelled(status) ? PushAbort::REASON_CANCELLED : PushAbort::REASON_FAILED);
  outbox_.WriteNext(*this);
}

// A push itself gives the blocks back, when no slice points into them any more.
void PrefillCall::EndSequence(PushAbort::Reason reason) {
  if (!submitted_) return;
  BATON_FAILPOINT("prefill.before_release");
  if (push_ != nullptr) {
    push_->Post(SendEvent::Abort{reason});
  } else {
    engine_.Release(sequence_);
  }
}

void PrefillCall::OnCancel() { End(absl::CancelledError("the call was cancelled")); }

void PrefillCall::OnDone() {
  const std::shared_ptr<PrefillCall> self = std::move(self_);
  std::shared_ptr<SendDriver> push;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  push = std::move(push_);
}

}  // namespace baton
