#include "prefill_worker/send_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/base/kv_type_name.h"
#include "common/protocol/worker_status.h"

namespace baton {
namespace {

using internal::v1::PushAbort;

KvWireFormat WireFormatOf(const SendConfig& config) {
  const absl::StatusOr<KvType> type = KvTypeFromName(config.open.wire_dtype());
  BATON_CHECK(type.ok(), "a push opens with a wire type that it knows");
  return KvWireFormat(config.layout, *type);
}

}  // namespace

SendMachine::SendMachine(SendConfig config)
    : config_(std::move(config)),
      token_bytes_(2 * WireFormatOf(config_).row_bytes()),
      crcs_(config_.layout.layers, static_cast<int>(config_.token_ids.size())) {
  BATON_CHECK(config_.open.token_count() == config_.token_ids.size(), "one count of tokens");
  BATON_CHECK(config_.streams >= 1 && config_.streams <= kMaxKvStreams, "1 to 16 streams");
}

std::vector<SendAction::Any> SendMachine::Handle(const SendEvent::Any& event, absl::Time now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  if (Active()) Pump();
  CleanUp();
  return std::exchange(actions_, {});
}

absl::Time SendMachine::NextDeadline() const {
  if (state_ == State::kGone || state_ == State::kIdle) return absl::InfiniteFuture();
  if (state_ == State::kAborting || state_ == State::kClosing) return deadline_;
  return std::min({deadline_, started_ + config_.limits.push_timeout, unacknowledged_.NextMissed(),
                   unacknowledged_.NextSilence(config_.limits.ack_timeout)});
}

void SendMachine::On(const SendEvent::Begin&) {
  if (state_ != State::kIdle) return;
  BATON_FAILPOINT("send_machine.before_open");
  state_ = State::kOpening;
  started_ = now_;
  deadline_ = now_ + config_.limits.open_timeout;
  streams_.insert(0);
  SendAction::OpenStream open;
  *open.first.mutable_open() = config_.open;
  actions_.emplace_back(std::move(open));
}

void SendMachine::On(const SendEvent::LayerReady& event) {
  if (finished_) return;
  const int end = event.first_token + event.token_count;
  BATON_CHECK(event.layer >= 0 && event.layer < config_.layout.layers && event.token_count > 0 &&
                  event.first_token >= 0 && event.first_token % kKvPageTokens == 0 &&
                  end <= static_cast<int>(config_.token_ids.size()),
              "a range of whole pages of the sequence");
  int page = event.first_token / kKvPageTokens;
  for (const uint32_t crc : event.page_crcs) crcs_.At(event.layer, page++) = crc;
  BATON_CHECK(page == KvPages(end), "one CRC for each page");
  computed_.push_back({event.layer, event.first_token, end});
}

void SendMachine::On(const SendEvent::Flush&) {
  for (Range& range : computed_) range.waits = false;
}

void SendMachine::On(const SendEvent::ChunkReady& event) {
  if (finished_) return;
  checkpoints_.push_back(event.end_token);
  if (event.end_token == static_cast<int>(config_.token_ids.size()))
    last_computed_ = std::min(event.at, now_);
}

void SendMachine::On(const SendEvent::FirstToken& event) {
  if (!finished_) first_tokens_.push_back(event.token);
}

void SendMachine::On(const SendEvent::Abort& event) {
  if (finished_ || state_ == State::kAborting) return;
  const bool finished = event.reason == PushAbort::REASON_FINISHED_AT_FIRST_TOKEN;
  absl::Status status = event.status;
  if (status.ok() && !finished)
    status = absl::CancelledError("the prefill ended before its commit");
  StartAbort(event.reason, std::move(status));
}

void SendMachine::On(const SendEvent::Response& event) {
  if (finished_ || !unacknowledged_.Carries(event.stream)) return;
  unacknowledged_.Answered(event.stream, now_);
  const bool joined = event.stream != 0;
  switch (event.message.event_case()) {
    case internal::v1::PushResponse::kOpened:
      if (!joined) return OnOpened(event.message.opened());
      break;
    case internal::v1::PushResponse::kAck:
      return OnAck(event.message.ack(), event.stream);
    case internal::v1::PushResponse::kRefused:
      return OnRefused(event.message.refused(), event.stream);
    case internal::v1::PushResponse::kCommitted:
      if (joined || state_ != State::kCommitting) break;
      BATON_FAILPOINT("send_machine.committed");
      report_.committed = true;
      return Finish(absl::OkStatus());
    case internal::v1::PushResponse::kCheckpointed:
      if (!joined) return;
      break;
    default:
      break;
  }
  if (state_ == State::kAborting) return;
  StartAbort(PushAbort::REASON_FAILED,
             absl::UnavailableError("the decode worker sent an answer that nothing asked for"));
}

void SendMachine::On(const SendEvent::StreamEnded& event) {
  streams_.erase(event.stream);
  if (finished_) return;
  if (event.stream != 0) return LoseStream(event.stream);
  if (state_ == State::kAborting) return Finish(abort_status_);
  if (TakesNoWork(event.status)) return Finish(event.status);
  Finish(absl::UnavailableError(
      absl::StrCat("the push to the decode worker broke: ", std::string(event.status.message()))));
}

void SendMachine::On(const SendEvent::SlicesReleased& event) {
  BATON_CHECK(live_messages_ > 0, "each message is released once");
  --live_messages_;
  if (event.intact) return;
  ++report_.stale_messages;
  if (finished_) return;
  absl::Status status =
      absl::InternalError("a KV block was given to somebody else while it was being sent");
  if (state_ == State::kAborting) {
    abort_status_ = std::move(status);
  } else {
    StartAbort(PushAbort::REASON_FAILED, std::move(status));
  }
}

void SendMachine::On(const SendEvent::Tick&) {
  if (state_ == State::kGone || now_ < NextDeadline()) return;
  if (state_ == State::kAborting) return Finish(abort_status_);
  if (state_ != State::kClosing) {
    const std::optional<int> silent = unacknowledged_.Silent(config_.limits.ack_timeout, now_);
    if (silent.value_or(0) > 0) {
      actions_.emplace_back(SendAction::CancelStream{*silent});
      return LoseStream(*silent);
    }
    const absl::Time end = std::min(deadline_, started_ + config_.limits.push_timeout);
    if (!silent.has_value() && now_ < end) return;  // only an answer is missed, which Pump handles
    return StartAbort(PushAbort::REASON_FAILED,
                      absl::UnavailableError("the decode worker did not answer the push in time"));
  }
  if (!cancelled_) {
    cancelled_ = true;
    deadline_ = now_ + config_.limits.close_timeout;
    for (const int stream : streams_) actions_.emplace_back(SendAction::CancelStream{stream});
  } else {
    deadline_ = absl::InfiniteFuture();
    actions_.emplace_back(SendAction::DropChannel{});
  }
}

void SendMachine::OnOpened(const internal::v1::PushOpened& opened) {
  if (state_ == State::kAborting) return;
  const uint32_t start = opened.start_token();
  window_bytes_ = opened.window_bytes();
  if (state_ != State::kOpening || start % kKvPageTokens != 0 ||
      start >= config_.token_ids.size() || !WindowHoldsAPage()) {
    return StartAbort(PushAbort::REASON_FAILED,
                      absl::UnavailableError("the decode worker opened the push with a start or "
                                             "window that cannot be"));
  }
  BATON_FAILPOINT("send_machine.opened");
  state_ = State::kSending;
  deadline_ = absl::InfiniteFuture();
  start_token_ = static_cast<int>(start);
  report_.bytes_saved = start * static_cast<size_t>(config_.layout.layers) * token_bytes_;
  JoinStreams();
}

void SendMachine::StartAbort(PushAbort::Reason reason, absl::Status status) {
  BATON_FAILPOINT("send_machine.before_abort");
  if (state_ == State::kIdle) return Finish(std::move(status));
  state_ = State::kAborting;
  deadline_ = now_ + config_.limits.abort_timeout;
  abort_status_ = std::move(status);
  CloseJoinedStreams();
  SendAction::SendControl abort;
  abort.drop_queued = true;
  abort.message.mutable_abort()->set_reason(reason);
  actions_.emplace_back(std::move(abort));
}

void SendMachine::Finish(absl::Status status) {
  finished_ = true;
  state_ = State::kClosing;
  if (!status.ok()) CloseJoinedStreams();
  deadline_ = now_ + config_.limits.close_timeout;
  computed_.clear();
  checkpoints_.clear();
  unacknowledged_.Clear();
  const bool all_computed = last_computed_ != absl::InfinitePast();
  if (all_computed) report_.exposed_transfer = now_ - last_computed_;
  if (report_.messages > 0) {
    report_.transfer = now_ - (all_computed ? std::min(first_sent_, last_computed_) : first_sent_);
  }
  for (const int stream : streams_) {
    if (unacknowledged_.Carries(stream)) actions_.emplace_back(SendAction::HalfClose{stream});
  }
  actions_.emplace_back(SendAction::Finished{std::move(status), report_});
}

void SendMachine::CleanUp() {
  if (finished_ && !released_ && live_messages_ == 0) {
    released_ = true;
    actions_.emplace_back(SendAction::ReleaseBlocks{});
  }
  if (released_ && streams_.empty()) state_ = State::kGone;
}

}  // namespace baton
