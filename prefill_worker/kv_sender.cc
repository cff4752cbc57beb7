#include "prefill_worker/kv_sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using internal::v1::PushAbort;
using internal::v1::PushRequest;

// 4 bytes of header each.
constexpr int kMaxPagesPerMessage = 8192;

KvWireFormat WireFormatOf(const KvSender::Config& config) {
  const absl::StatusOr<KvWireType> type = KvWireTypeFromName(config.open.wire_dtype());
  BATON_CHECK(type.ok(), "a push opens with a wire type that it knows");
  return KvWireFormat(config.layout, *type);
}

}  // namespace

KvSender::KvSender(Config config)
    : config_(std::move(config)),
      token_bytes_(2 * WireFormatOf(config_).row_bytes()),
      crcs_(config_.layout.layers, static_cast<int>(config_.token_ids.size())) {
  BATON_CHECK(config_.open.token_count() == config_.token_ids.size(), "one count of tokens");
  BATON_CHECK(config_.streams >= 1 && config_.streams <= kMaxKvStreams, "1 to 16 streams");
}

std::vector<KvSender::Action> KvSender::Handle(const Event& event, absl::Time now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  if (Active()) Pump();
  CleanUp();
  return std::exchange(actions_, {});
}

absl::Time KvSender::NextDeadline() const {
  if (state_ == State::kGone || state_ == State::kIdle) return absl::InfiniteFuture();
  if (state_ == State::kAborting || state_ == State::kClosing) return deadline_;
  return std::min({deadline_, started_ + config_.limits.push_timeout,
                   unacknowledged_.NextSilence(config_.limits.ack_timeout)});
}

void KvSender::On(const Begin&) {
  if (state_ != State::kIdle) return;
  state_ = State::kOpening;
  started_ = now_;
  deadline_ = now_ + config_.limits.open_timeout;
  streams_.insert(0);
  OpenStream open;
  *open.first.mutable_open() = config_.open;
  actions_.emplace_back(std::move(open));
}

void KvSender::On(const LayerReady& event) {
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

void KvSender::On(const ChunkReady& event) {
  if (finished_) return;
  checkpoints_.push_back(event.end_token);
  if (event.end_token == static_cast<int>(config_.token_ids.size()))
    last_computed_ = std::min(event.at, now_);
}

void KvSender::On(const FirstToken& event) {
  if (!finished_) first_token_ = event.token;
}

void KvSender::On(const Abort& event) {
  if (finished_ || state_ == State::kAborting) return;
  const bool finished = event.reason == PushAbort::REASON_FINISHED_AT_FIRST_TOKEN;
  absl::Status status = event.status;
  if (status.ok() && !finished)
    status = absl::CancelledError("the prefill ended before its commit");
  StartAbort(event.reason, std::move(status));
}

void KvSender::On(const Response& event) {
  if (finished_ || !unacknowledged_.Carries(event.stream)) return;
  unacknowledged_.Answered(event.stream, now_);
  const bool joined = event.stream != 0;
  switch (event.message.event_case()) {
    case internal::v1::PushResponse::kOpened:
      if (!joined) return OnOpened(event.message.opened());
      break;
    case internal::v1::PushResponse::kAck:
      return OnAck(event.message.ack());
    case internal::v1::PushResponse::kRefused:
      return OnRefused(event.message.refused(), event.stream);
    case internal::v1::PushResponse::kCommitted:
      if (joined || state_ != State::kCommitting) break;
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

void KvSender::On(const StreamEnded& event) {
  streams_.erase(event.stream);
  if (finished_) return;
  if (event.stream != 0) return LoseStream(event.stream);
  if (state_ == State::kAborting) return Finish(abort_status_);
  Finish(absl::UnavailableError(
      absl::StrCat("the push to the decode worker broke: ", std::string(event.status.message()))));
}

void KvSender::On(const SlicesReleased& event) {
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

void KvSender::On(const Tick&) {
  if (state_ == State::kGone || now_ < NextDeadline()) return;
  if (state_ == State::kAborting) return Finish(abort_status_);
  if (state_ != State::kClosing) {
    const int silent = unacknowledged_.Silent(config_.limits.ack_timeout, now_).value_or(0);
    if (silent > 0) {
      actions_.emplace_back(CancelStream{silent});
      return LoseStream(silent);
    }
    return StartAbort(PushAbort::REASON_FAILED,
                      absl::UnavailableError("the decode worker did not answer the push in time"));
  }
  if (!cancelled_) {
    cancelled_ = true;
    deadline_ = now_ + config_.limits.close_timeout;
    for (const int stream : streams_) actions_.emplace_back(CancelStream{stream});
  } else {
    deadline_ = absl::InfiniteFuture();
    actions_.emplace_back(DropChannel{});
  }
}

void KvSender::OnOpened(const internal::v1::PushOpened& opened) {
  if (state_ == State::kAborting) return;
  const uint32_t start = opened.start_token();
  window_bytes_ = opened.window_bytes();
  if (state_ != State::kOpening || start % kKvPageTokens != 0 ||
      start >= config_.token_ids.size() || !WindowHoldsAPage()) {
    return StartAbort(PushAbort::REASON_FAILED,
                      absl::UnavailableError("the decode worker opened the push with a start or "
                                             "window that cannot be"));
  }
  state_ = State::kSending;
  deadline_ = absl::InfiniteFuture();
  start_token_ = static_cast<int>(start);
  report_.bytes_saved = start * static_cast<size_t>(config_.layout.layers) * token_bytes_;
  JoinStreams();
}

void KvSender::OnAck(const internal::v1::PushAck& ack) {
  // A duplicate is acknowledged too.
  if (!unacknowledged_.Acknowledge(ack.sequence_number())) return;
  window_bytes_ = ack.window_bytes();
  if (Active() && !WindowHoldsAPage()) {
    StartAbort(PushAbort::REASON_FAILED,
               absl::UnavailableError("the decode worker's window holds no page"));
  }
}

void KvSender::Pump() {
  while (SendNextMessage()) {
  }
  SendCheckpoint();
  SendCommit();
}

// One message from the front of what was computed: layers of one range together, pages of one layer
// apart, as the limits and the window have it. False when there is nothing to send or it has to
// wait.
bool KvSender::SendNextMessage() {
  while (!computed_.empty() && computed_.front().end_token <= start_token_) computed_.pop_front();
  if (computed_.empty() || unacknowledged_.bytes() >= window_bytes_) return false;
  const size_t limit = std::min<size_t>(config_.limits.max_payload_bytes, window_bytes_);
  Range& front = computed_.front();
  const int first = std::max(front.first_token, start_token_);
  const int tokens = front.end_token - first;
  const size_t layer_bytes = static_cast<size_t>(tokens) * token_bytes_;

  size_t layers = 1;
  int message_tokens = tokens;
  const int pages = KvPages(tokens);
  if (layer_bytes > limit || pages > kMaxPagesPerMessage) {
    const size_t page_bytes = token_bytes_ * static_cast<size_t>(kKvPageTokens);
    const auto fit = static_cast<int>(std::min<size_t>(limit / page_bytes, kMaxPagesPerMessage));
    message_tokens = fit * kKvPageTokens;
  } else {
    while (layers < computed_.size() && (layers + 1) * layer_bytes <= limit &&
           static_cast<int>(layers + 1) * pages <= kMaxPagesPerMessage &&
           computed_[layers].layer == front.layer + static_cast<int>(layers) &&
           computed_[layers].first_token == front.first_token &&
           computed_[layers].end_token == front.end_token) {
      ++layers;
    }
    const bool may_grow = layers == computed_.size() &&
                          front.layer + static_cast<int>(layers) < config_.layout.layers;
    if (may_grow && layers * layer_bytes < config_.limits.min_payload_bytes &&
        (layers + 1) * layer_bytes <= limit) {
      return false;
    }
  }
  const size_t bytes = layers * static_cast<size_t>(message_tokens) * token_bytes_;
  if (unacknowledged_.bytes() + bytes > window_bytes_) return false;

  const KvDataHeader header =
      MakeHeader(front.layer, static_cast<int>(layers), first, message_tokens);
  if (message_tokens < tokens) {
    front.first_token = first + message_tokens;
  } else {
    computed_.erase(computed_.begin(), computed_.begin() + static_cast<std::ptrdiff_t>(layers));
  }
  if (report_.messages == 0) first_sent_ = now_;
  report_.bytes_sent += bytes;
  ++report_.messages;
  ++live_messages_;
  actions_.emplace_back(SendData{header, bytes, unacknowledged_.Add(header, bytes, now_)});
  return true;
}

KvDataHeader KvSender::MakeHeader(int first_layer, int layer_count, int first_token,
                                  int token_count) {
  KvDataHeader header;
  *header.mutable_key() = config_.open.key();
  header.set_sequence_number(next_sequence_number_++);
  header.set_first_layer(static_cast<uint32_t>(first_layer));
  header.set_layer_count(static_cast<uint32_t>(layer_count));
  header.set_first_token(static_cast<uint32_t>(first_token));
  header.set_token_count(static_cast<uint32_t>(token_count));
  header.set_first_kv_head(0);
  header.set_kv_head_count(static_cast<uint32_t>(config_.layout.kv_heads));
  for (int layer = first_layer; layer < first_layer + layer_count; ++layer) {
    for (int page = first_token / kKvPageTokens; page < KvPages(first_token + token_count);
         ++page) {
      header.add_page_crc32c(crcs_.At(layer, page));
    }
  }
  return header;
}

bool KvSender::CoveredBefore(int end_token) const {
  for (const Range& range : computed_) {
    if (range.first_token < end_token) return false;
  }
  for (const auto& [sequence_number, message] : unacknowledged_.messages()) {
    if (static_cast<int>(message.header.first_token()) < end_token) return false;
  }
  return true;
}

void KvSender::SendCheckpoint() {
  if (state_ != State::kSending) return;
  int end_token = 0;
  while (!checkpoints_.empty() && CoveredBefore(checkpoints_.front())) {
    end_token = checkpoints_.front();
    checkpoints_.pop_front();
  }
  if (end_token <= start_token_) return;
  SendControl checkpoint;
  checkpoint.message.mutable_checkpoint()->set_end_token(static_cast<uint32_t>(end_token));
  checkpoint.message.mutable_checkpoint()->set_digest(Digest(end_token, {}));
  actions_.emplace_back(std::move(checkpoint));
}

void KvSender::SendCommit() {
  if (state_ != State::kSending || !first_token_.has_value() || !checkpoints_.empty() ||
      last_computed_ == absl::InfinitePast() || !computed_.empty() || !unacknowledged_.empty()) {
    return;
  }
  state_ = State::kCommitting;
  deadline_ = now_ + config_.limits.commit_timeout;
  SendControl commit;
  *commit.message.mutable_commit()->add_first_tokens() = *first_token_;
  commit.message.mutable_commit()->set_digest(
      Digest(static_cast<int>(config_.token_ids.size()), absl::MakeConstSpan(&*first_token_, 1)));
  actions_.emplace_back(std::move(commit));
}

std::string KvSender::Digest(int end_token,
                             absl::Span<const internal::v1::OutputToken> first_tokens) {
  return digester_.Digest({.identity = config_.open.identity(),
                           .token_ids = config_.token_ids,
                           .start_token = start_token_,
                           .end_token = end_token,
                           .first_tokens = first_tokens,
                           .crcs = crcs_});
}

void KvSender::StartAbort(PushAbort::Reason reason, absl::Status status) {
  if (state_ == State::kIdle) return Finish(std::move(status));
  state_ = State::kAborting;
  deadline_ = now_ + config_.limits.abort_timeout;
  abort_status_ = std::move(status);
  CloseJoinedStreams();
  SendControl abort;
  abort.drop_queued = true;
  abort.message.mutable_abort()->set_reason(reason);
  actions_.emplace_back(std::move(abort));
}

void KvSender::Finish(absl::Status status) {
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
    if (unacknowledged_.Carries(stream)) actions_.emplace_back(HalfClose{stream});
  }
  actions_.emplace_back(Finished{std::move(status), report_});
}

void KvSender::CleanUp() {
  if (finished_ && !released_ && live_messages_ == 0) {
    released_ = true;
    actions_.emplace_back(ReleaseBlocks{});
  }
  if (released_ && streams_.empty()) state_ = State::kGone;
}

}  // namespace baton
