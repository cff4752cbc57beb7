#include "decode_worker/receive_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/kv_type_name.h"
#include "common/base/numerics.h"
#include "common/handoff/kv_wire_choice.h"
#include "common/protocol/identity_text.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using internal::v1::OutputToken;
using internal::v1::PushAbort;
using internal::v1::PushCommit;
using internal::v1::PushOpen;
using internal::v1::PushRefused;
using internal::v1::PushRequest;

constexpr int kMaxRefusals = 3;
constexpr size_t kMaxRefusedMessages = 1024;

}  // namespace

ReceiveMachine::ReceiveMachine(ReceiveConfig config, absl::Time now)
    : config_(std::move(config)),
      token_count_(static_cast<int>(config_.token_ids.size())),
      now_(now),
      deadline_(now + config_.limits.reservation_timeout),
      wire_(config_.layout, config_.layout.dtype),
      crcs_(config_.layout.layers, token_count_) {
  BATON_CHECK(token_count_ > 0, "a sequence has tokens");
  pages_.resize(static_cast<size_t>(crcs_.layers()) * static_cast<size_t>(crcs_.pages()));
}

std::vector<ReceiveAction::Any> ReceiveMachine::Handle(const ReceiveEvent::Any& event,
                                                       absl::Time now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  return std::exchange(actions_, {});
}

void ReceiveMachine::On(const ReceiveEvent::ControlReceived& event) {
  const bool ours = event.stream == stream_;
  switch (event.message.event_case()) {
    case PushRequest::kOpen:
      return OnOpen(event.stream, event.message.open());
    case PushRequest::kJoin:
      return OnJoin(event.stream, event.message.join());
    case PushRequest::kCheckpoint:
      if (ours && state_ == State::kReceiving) return OnCheckpoint(event.message.checkpoint());
      break;
    case PushRequest::kCommit:
      if (ours && state_ == State::kReceiving) return OnCommit(event.message.commit());
      break;
    case PushRequest::kAbort:
      if (ours && (state_ == State::kOpen || state_ == State::kReceiving)) {
        resumable_ = event.message.abort().reason() != PushAbort::REASON_FINISHED_AT_FIRST_TOKEN;
        return Fail(PushRefused::REASON_ABORTED,
                    absl::CancelledError("the prefill worker ended the push"));
      }
      break;
    default:
      break;
  }
  if (Carries(event.stream) && (state_ == State::kOpen || state_ == State::kReceiving)) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE,
                absl::InvalidArgumentError("a push message that cannot come now"));
  }
  TurnAway(event.stream, PushRefused::REASON_UNKNOWN_ATTEMPT, "the push is not open");
}

void ReceiveMachine::OnOpen(PushStreamId stream, const PushOpen& open) {
  if (!Authenticate(stream, open.key(), open.capability())) return;
  if (state_ != State::kReserved) {
    return TurnAway(stream, PushRefused::REASON_UNKNOWN_ATTEMPT, "the push was opened before");
  }
  BATON_FAILPOINT("receive_machine.before_open");
  stream_ = stream;
  state_ = State::kOpen;
  if (!SameIdentity(open.identity(), config_.identity)) {
    return Fail(PushRefused::REASON_MODEL_MISMATCH,
                absl::FailedPreconditionError(
                    absl::StrCat("the prefill worker runs ", IdentityText(open.identity()),
                                 ", this decode worker ", IdentityText(config_.identity))));
  }
  if (absl::Status status = CheckShape(open); !status.ok()) {
    return Fail(PushRefused::REASON_SHAPE, std::move(status));
  }
  push_deadline_ = now_ + config_.limits.push_timeout;
  const KvType wire_type = *KvTypeFromName(open.wire_dtype());
  const std::string numerics = StoredNumerics(open.shape(), wire_type, config_.shape);
  if (absl::Status status = CheckPageHashes(open, numerics); !status.ok()) {
    return Fail(PushRefused::REASON_SHAPE, std::move(status));
  }
  wire_ = KvWireFormat(config_.layout, wire_type);
  const bool own_numerics = numerics == config_.shape.numerics();
  exact_ = own_numerics && PromisesBits(numerics);
  deadline_ = now_ + config_.limits.open_timeout;
  BATON_FAILPOINT("receive_machine.opened");
  actions_.emplace_back(ReceiveAction::TakeBlocks{own_numerics ? "" : numerics});
}

void ReceiveMachine::On(const ReceiveEvent::Granted& event) {
  if (state_ != State::kOpen) return;
  BATON_CHECK(event.start_token >= 0 && event.start_token < token_count_ &&
                  event.start_token % kKvPageTokens == 0,
              "the last token is never cached, and whole pages are");
  BATON_FAILPOINT("receive_machine.granted");
  state_ = State::kReceiving;
  start_token_ = event.start_token;
  checkpointed_tokens_ = start_token_;
  ExpectMore();
  ReceiveAction::Send opened{stream_, {}};
  opened.message.mutable_opened()->set_start_token(static_cast<uint32_t>(start_token_));
  opened.message.mutable_opened()->set_window_bytes(config_.limits.window_bytes);
  actions_.emplace_back(std::move(opened));
}

void ReceiveMachine::On(const ReceiveEvent::DataReceived& event) {
  if (state_ != State::kReceiving || !Carries(event.stream)) {
    actions_.emplace_back(ReceiveAction::Drop{event.message_id});
    if (event.stream == stream_ && state_ == State::kOpen) {
      return Fail(PushRefused::REASON_OUT_OF_RANGE,
                  absl::InvalidArgumentError("data before the push was opened"));
    }
    return TurnAway(event.stream, PushRefused::REASON_UNKNOWN_ATTEMPT, "the push is not open");
  }
  ExpectMore();
  Message message{event.stream, event.message_id, event.payload_bytes, {}, 0};
  // A damaged header does not tell which message to ask for again.
  if (Crc32c(event.header.data(), event.header.size()) != event.header_crc32c) {
    actions_.emplace_back(ReceiveAction::Drop{event.message_id});
    return Fail(PushRefused::REASON_CHECKSUM,
                absl::DataLossError("the CRC of a KvData header does not agree"));
  }
  absl::Status status = absl::InvalidArgumentError("KvData header: not a header");
  if (message.header.ParseFromString(event.header)) {
    status = CheckHeader(message.header, event.payload_bytes);
    if (status.ok() && HoldsTheSame(message)) {
      actions_.emplace_back(ReceiveAction::Drop{event.message_id});
      return;
    }
    if (status.ok()) message.window_bytes = WindowBytesOf(message);
    if (status.ok() && held_bytes_ + message.window_bytes > config_.limits.window_bytes) {
      status = absl::InvalidArgumentError("KvData: more unacknowledged bytes than the window");
    }
  }
  if (!status.ok()) {
    actions_.emplace_back(ReceiveAction::Drop{event.message_id});
    return Fail(PushRefused::REASON_OUT_OF_RANGE, std::move(status));
  }
  held_bytes_ += message.window_bytes;
  Place(std::move(message));
}

// Has those pages of a checked message copied that are still empty. The message waits where another
// copy into one of its pages is under way.
void ReceiveMachine::Place(Message message) {
  const KvDataHeader& header = message.header;
  const int first_page = static_cast<int>(header.first_token()) / kKvPageTokens;
  const int end_token = static_cast<int>(header.first_token() + header.token_count());
  const int first_layer = static_cast<int>(header.first_layer());
  const int end_layer = first_layer + static_cast<int>(header.layer_count());
  std::vector<LayerTokens> ranges;
  int index = 0;  // index in page_crc32c
  for (int layer = first_layer; layer < end_layer; ++layer) {
    bool extends = false;
    for (int page = first_page; page < KvPages(end_token); ++page, ++index) {
      const Page state = PageAt(layer, page);
      if (state == Page::kCopying) {
        waiting_.push_back(std::move(message));
        return;
      }
      if (state == Page::kCovered) {
        extends = false;
        if (crcs_.At(layer, page) == header.page_crc32c(index)) continue;
        actions_.emplace_back(ReceiveAction::Drop{message.message_id});
        held_bytes_ -= message.window_bytes;
        return Fail(PushRefused::REASON_OUT_OF_RANGE,
                    absl::DataLossError("a page came twice with different bytes"));
      }
      const int first = page * kKvPageTokens;
      if (!extends) ranges.push_back({layer, first, 0});
      ranges.back().token_count =
          std::min(first + kKvPageTokens, end_token) - ranges.back().first_token;
      extends = true;
    }
  }
  if (ranges.empty()) {
    actions_.emplace_back(ReceiveAction::Drop{message.message_id});
    return Acknowledge(message);
  }
  for (const LayerTokens& range : ranges) {
    BATON_CHECK(range.first_token >= start_token_, "others read the blocks before start_token");
    const int end = KvPages(range.first_token + range.token_count);
    for (int page = range.first_token / kKvPageTokens; page < end; ++page) {
      PageAt(range.layer, page) = Page::kCopying;
    }
  }
  BATON_FAILPOINT("receive_machine.before_copy");
  const uint64_t copy_id = next_copy_id_++;
  actions_.emplace_back(
      ReceiveAction::Copy{copy_id, message.message_id, header, ranges, wire_.type()});
  copies_[copy_id] = {std::move(message), std::move(ranges)};
}

void ReceiveMachine::On(const ReceiveEvent::CopyDone& event) {
  BATON_FAILPOINT("receive_machine.copied");
  const auto found = copies_.find(event.copy_id);
  BATON_CHECK(found != copies_.end(), "each copy is answered once");
  const CopyInFlight copy = std::move(found->second);
  copies_.erase(found);
  actions_.emplace_back(ReceiveAction::Drop{copy.message.message_id});
  if (state_ == State::kDraining) {
    if (copies_.empty()) Drain();
    return;
  }
  const KvDataHeader& header = copy.message.header;
  const int first_page = static_cast<int>(header.first_token()) / kKvPageTokens;
  const int message_pages = KvPages(static_cast<int>(header.token_count()));
  bool all_agree = event.ok;
  size_t index = 0;  // index in event.page_crcs
  for (const LayerTokens& range : copy.ranges) {
    const int end = KvPages(range.first_token + range.token_count);
    for (int page = range.first_token / kKvPageTokens; page < end; ++page, ++index) {
      const int in_message =
          (range.layer - static_cast<int>(header.first_layer())) * message_pages + page -
          first_page;
      const uint32_t wanted = header.page_crc32c(in_message);
      const bool agrees =
          event.ok && index < event.page_crcs.size() && event.page_crcs[index] == wanted;
      PageAt(range.layer, page) = agrees ? Page::kCovered : Page::kEmpty;
      if (agrees) crcs_.At(range.layer, page) = wanted;
      all_agree = all_agree && agrees;
    }
  }
  if (!event.ok) {
    held_bytes_ -= copy.message.window_bytes;
    return Fail(PushRefused::REASON_ABORTED, absl::InternalError("a copy into the cache failed"));
  }
  if (all_agree) {
    Acknowledge(copy.message);
  } else {
    AskAgain(copy.message);
  }
  // The loop takes waiting_ out first, because Place puts messages that still wait back into it.
  for (Message& message : std::exchange(waiting_, {})) {
    if (state_ == State::kReceiving) {
      Place(std::move(message));
    } else {
      actions_.emplace_back(ReceiveAction::Drop{message.message_id});
    }
  }
}

void ReceiveMachine::Acknowledge(const Message& message) {
  held_bytes_ -= message.window_bytes;
  refusals_.erase(message.header.sequence_number());
  if (!Carries(message.stream)) return;
  ReceiveAction::Send ack{message.stream, {}};
  ack.message.mutable_ack()->set_sequence_number(message.header.sequence_number());
  ack.message.mutable_ack()->set_window_bytes(config_.limits.window_bytes);
  actions_.emplace_back(std::move(ack));
}

void ReceiveMachine::AskAgain(const Message& message) {
  held_bytes_ -= message.window_bytes;
  if (!Carries(message.stream)) return;
  const uint64_t sequence_number = message.header.sequence_number();
  if (++refusals_[sequence_number] > kMaxRefusals || refusals_.size() > kMaxRefusedMessages) {
    return Fail(PushRefused::REASON_CHECKSUM,
                absl::DataLossError("the CRC of a page did not agree, sent again three times"));
  }
  Refuse(message.stream, PushRefused::REASON_CHECKSUM, "the CRC of a page does not agree",
         sequence_number);
}

void ReceiveMachine::OnCheckpoint(const internal::v1::PushCheckpoint& checkpoint) {
  BATON_FAILPOINT("receive_machine.before_checkpoint");
  ExpectMore();
  const uint32_t end = checkpoint.end_token();
  if (end > static_cast<uint32_t>(token_count_) ||
      end <= static_cast<uint32_t>(checkpointed_tokens_) ||
      (end % kKvPageTokens != 0 && end != static_cast<uint32_t>(token_count_))) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE,
                absl::InvalidArgumentError("checkpoint: end_token out of range"));
  }
  const int end_token = static_cast<int>(end);
  if (!CoveredBefore(end_token) || Digest(end_token, {}) != checkpoint.digest()) {
    return Fail(PushRefused::REASON_INCOMPLETE,
                absl::DataLossError("checkpoint: pages are missing or the digest differs"));
  }
  BATON_FAILPOINT("receive_machine.checkpointed");
  checkpointed_tokens_ = end_token;
  ReceiveAction::Send answer{stream_, {}};
  answer.message.mutable_checkpointed()->set_end_token(end);
  actions_.emplace_back(std::move(answer));
}

void ReceiveMachine::OnCommit(const PushCommit& commit) {
  BATON_FAILPOINT("receive_machine.before_commit");
  if (absl::Status status = CheckFirstTokens(commit); !status.ok()) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE, std::move(status));
  }
  const std::vector<OutputToken> first_tokens(commit.first_tokens().begin(),
                                              commit.first_tokens().end());
  if (!CoveredBefore(token_count_)) {
    return Fail(PushRefused::REASON_INCOMPLETE, absl::DataLossError("commit: pages are missing"));
  }
  if (Digest(token_count_, first_tokens) != commit.digest()) {
    return Fail(PushRefused::REASON_INCOMPLETE, absl::DataLossError("commit: the digest differs"));
  }
  BATON_CHECK(copies_.empty() && waiting_.empty(), "what is covered is not in copy");
  BATON_FAILPOINT("receive_machine.committed");
  state_ = State::kCommitted;
  deadline_ = absl::InfiniteFuture();
  actions_.emplace_back(ReceiveAction::CommitSequence{first_tokens, exact_});
  ReceiveAction::Send committed{stream_, {}};
  committed.message.mutable_committed();
  actions_.emplace_back(std::move(committed));
  EndStreams();
}

void ReceiveMachine::On(const ReceiveEvent::Cancelled& event) {
  switch (state_) {
    case State::kReserved:
    case State::kCommitted:
      state_ = State::kGone;
      deadline_ = absl::InfiniteFuture();
      actions_.emplace_back(ReceiveAction::ReleaseBlocks{});
      return;
    case State::kOpen:
    case State::kReceiving:
      resumable_ = event.reason == PushRefused::REASON_SUPERSEDED;
      return Fail(event.reason, absl::CancelledError("the attempt ended"));
    case State::kDraining:
    case State::kGone:
      return;
  }
}

void ReceiveMachine::On(const ReceiveEvent::Tick&) {
  if (now_ < deadline_) return;
  if (state_ == State::kReserved) {
    return EndReservation(absl::DeadlineExceededError("no push came for the reserved blocks"));
  }
  Fail(PushRefused::REASON_ABORTED,
       absl::UnavailableError("the push from the prefill worker made no progress"));
}

void ReceiveMachine::On(const ReceiveEvent::EventsLost&) {
  absl::Status status = absl::ResourceExhaustedError("more came for the push than can wait here");
  if (state_ == State::kReserved) return EndReservation(std::move(status));
  if (state_ != State::kOpen && state_ != State::kReceiving) return;
  Fail(PushRefused::REASON_OUT_OF_RANGE, std::move(status));
}

void ReceiveMachine::EndReservation(absl::Status status) {
  actions_.emplace_back(ReceiveAction::Failed{std::move(status)});
  actions_.emplace_back(ReceiveAction::ReleaseBlocks{});
  state_ = State::kGone;
  deadline_ = absl::InfiniteFuture();
}

void ReceiveMachine::Fail(PushRefused::Reason reason, absl::Status status) {
  BATON_FAILPOINT("receive_machine.before_abort");
  Refuse(stream_, reason, std::string(status.message()));
  EndStreams();
  actions_.emplace_back(ReceiveAction::Failed{std::move(status)});
  for (const Message& message : std::exchange(waiting_, {})) {
    actions_.emplace_back(ReceiveAction::Drop{message.message_id});
  }
  state_ = State::kDraining;
  deadline_ = absl::InfiniteFuture();
  if (copies_.empty()) Drain();
}

void ReceiveMachine::Drain() {
  BATON_FAILPOINT("receive_machine.before_release");
  state_ = State::kGone;
  ReceiveAction::ReleaseBlocks release;
  if (resumable_) release.resume_tokens = checkpointed_tokens_;
  actions_.emplace_back(release);
}

}  // namespace baton
