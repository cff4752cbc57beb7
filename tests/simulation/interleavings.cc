#include "tests/simulation/interleavings.h"

#include <utility>

#include "common/base/crc32c.h"
#include "tests/simulation/sim_open.h"

namespace baton {

using internal::v1::KvDataHeader;
using internal::v1::PushAbort;
using internal::v1::PushResponse;

namespace {

constexpr PushStreamId kStream = 1;

KvLayout Layout() {
  return {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_size = kKvPageTokens};
}

// What the CRC of a page is that has the K and V of that request.
uint32_t CrcOf(int request, int page) {
  return 0x1000u * static_cast<uint32_t>(request + 1) + static_cast<uint32_t>(page);
}

internal::v1::KvShape Shape() {
  internal::v1::KvShape shape = SimShape(kKvPageTokens);
  shape.set_layers(1);
  return shape;
}

std::vector<int32_t> Tokens(int request, int messages) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < messages * kKvPageTokens; ++i) tokens.push_back(request * 500 + i);
  return tokens;
}

internal::v1::PushOpen Open(int request, int messages) {
  internal::v1::PushOpen open;
  open.mutable_key()->set_request_id_low(static_cast<uint64_t>(request) + 1);
  open.mutable_key()->set_attempt(1);
  open.set_capability("0123456789abcdef");
  *open.mutable_identity() = SimIdentity();
  *open.mutable_shape() = Shape();
  open.set_wire_dtype("f16");
  const std::vector<int32_t> tokens = Tokens(request, messages);
  open.set_token_count(static_cast<uint32_t>(tokens.size()));
  const std::vector<uint64_t> hashes = PageHashes(open.identity(), "", "cpu", tokens);
  open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
  return open;
}

size_t PageBytes() { return size_t{kKvPageTokens} * Layout().bytes_per_token(); }

}  // namespace

InterleavingWorld::InterleavingWorld(const InterleavingOptions& options)
    : options_(options), disturbances_left_(options.disturbances) {
  decode_content_.assign(static_cast<size_t>(options.messages), -1);
}

void InterleavingWorld::Take(const Choice& choice) {
  Side& side = At(choice.request);
  if (Disturbs(choice.kind) && disturbances_left_ > 0) --disturbances_left_;
  switch (choice.kind) {
    case Kind::kStartDecode:
      return StartDecode(choice.request);
    case Kind::kStartPrefill:
      return StartPrefill(choice.request);
    case Kind::kGrant:
      side.granted = true;
      return ToReceiver(choice.request, ReceiveEvent::Granted{0});
    case Kind::kCompute:
      return Compute(choice.request);
    case Kind::kFirstToken: {
      side.first_token_made = true;
      SendEvent::FirstToken first;
      first.token.mutable_token()->set_token_id(5);
      return ToSender(choice.request, first);
    }
    case Kind::kDeliver:
      return Deliver(choice.request);
    case Kind::kAnswer:
      return Answer(choice.request);
    case Kind::kReleaseSlices:
      --side.released_slices;
      --side.live_slices;
      return ToSender(choice.request, SendEvent::SlicesReleased{});
    case Kind::kCopyDone:
      return FinishCopy(choice.request, choice.copy_id);
    case Kind::kNoticeAtPrefill:
      side.prefill_notice = side.prefill_open = false;
      return ToSender(choice.request, SendEvent::StreamEnded{absl::UnavailableError("ended"), 0});
    case Kind::kNoticeAtDecode:
      side.decode_notice = false;
      return ToReceiver(choice.request, ReceiveEvent::StreamLost{kStream});
    case Kind::kDecodeEnds:
    case Kind::kCancelAtDecode:
      return ToReceiver(choice.request, ReceiveEvent::Cancelled{});
    case Kind::kCancelAtPrefill:
      return ToSender(choice.request, SendEvent::Abort{PushAbort::REASON_CANCELLED});
    case Kind::kCut:
      return EndStream(choice.request);
    case Kind::kKillPrefill:
      return KillPrefill();
    case Kind::kKillDecode:
      return KillDecode();
    case Kind::kPrefillTimeout:
      return ToSender(choice.request, SendEvent::Tick{}, side.sender->NextDeadline());
    case Kind::kDecodeTimeout:
      return ToReceiver(choice.request, ReceiveEvent::Tick{}, side.receiver->NextDeadline());
  }
}

void InterleavingWorld::StartDecode(int request) {
  Side& side = At(request);
  side.decode_started = true;
  decode_owner_ = request;
  const internal::v1::PushOpen open = Open(request, options_.messages);
  side.receiver = std::make_shared<ReceiveMachine>(
      ReceiveConfig{.key = open.key(),
                    .capability = open.capability(),
                    .identity = open.identity(),
                    .shape = Shape(),
                    .layout = Layout(),
                    .token_ids = Tokens(request, options_.messages),
                    .page_hashes = {open.page_hashes().begin(), open.page_hashes().end()},
                    .prompt_length = options_.messages * kKvPageTokens,
                    .vocab_size = kSimVocab,
                    .limits = {.window_bytes = 2 * PageBytes()}},
      absl::UnixEpoch());
}

void InterleavingWorld::StartPrefill(int request) {
  Side& side = At(request);
  side.prefill_started = true;
  prefill_owner_ = request;
  side.sender = std::make_shared<SendMachine>(
      SendConfig{.open = Open(request, options_.messages),
                 .layout = Layout(),
                 .token_ids = Tokens(request, options_.messages),
                 .limits = {.max_payload_bytes = PageBytes(), .min_payload_bytes = 0}});
  ToSender(request, SendEvent::Begin{});
}

void InterleavingWorld::Compute(int request) {
  At(request).computed = true;
  if (prefill_owner_ != request) return;  // its push is over, and its blocks with it
  prefill_content_ = request;
  const int tokens = options_.messages * kKvPageTokens;
  SendEvent::LayerReady ready{{0, {0, tokens}}, {}};
  for (int page = 0; page < options_.messages; ++page) {
    ready.page_crcs.push_back(CrcOf(request, page));
  }
  ToSender(request, ready);
  ToSender(request, SendEvent::ChunkReady{tokens});
}

void InterleavingWorld::ToSender(int request, const SendEvent::Any& event, absl::Time now) {
  Side& side = At(request);
  if (side.sender == nullptr || side.sender_over) return;
  auto sender = std::make_shared<SendMachine>(*side.sender);
  const std::vector<SendAction::Any> actions = sender->Handle(event, now);
  side.sender = sender;
  for (const SendAction::Any& action : actions) Execute(request, action);
  if (sender->gone()) side.sender_over = true;
}

void InterleavingWorld::Execute(int request, const SendAction::Any& action) {
  Side& side = At(request);
  if (const auto* open = std::get_if<SendAction::OpenStream>(&action)) {
    side.prefill_open = side.decode_open = true;
    Message message;
    message.control = open->first;
    side.to_decode.push_back(std::move(message));
  } else if (const auto* control = std::get_if<SendAction::SendControl>(&action)) {
    if (!side.prefill_open || side.half_closed) return;
    if (control->drop_queued) {
      std::erase_if(side.to_decode, [&side](const Message& message) {
        side.released_slices += message.is_data ? 1 : 0;
        return message.is_data;
      });
    }
    Message message;
    message.control = control->message;
    side.to_decode.push_back(std::move(message));
  } else if (const auto* data = std::get_if<SendAction::SendData>(&action)) {
    if (prefill_owner_ != request) Violation("a message from blocks that were given back");
    ++side.live_slices;
    if (!side.prefill_open || side.half_closed) {
      ++side.released_slices;
      return;
    }
    Message message;
    message.is_data = true;
    message.header = data->header;
    message.payload_bytes = data->payload_bytes;
    side.to_decode.push_back(std::move(message));
  } else if (std::holds_alternative<SendAction::HalfClose>(action)) {
    side.half_closed = true;
    Message message;
    message.half_close = true;
    side.to_decode.push_back(std::move(message));
  } else if (std::holds_alternative<SendAction::CancelStream>(action) ||
             std::holds_alternative<SendAction::DropChannel>(action)) {
    EndStream(request);
  } else if (std::holds_alternative<SendAction::ReleaseBlocks>(action)) {
    if (side.live_slices > 0) Violation("blocks given back under live slices");
    if (prefill_owner_ != request) Violation("blocks given back twice");
    prefill_owner_ = -1;
  }
}

void InterleavingWorld::Deliver(int request) {
  Side& side = At(request);
  const Message message = std::move(side.to_decode.front());
  side.to_decode.pop_front();
  side.released_slices += message.is_data ? 1 : 0;
  if (message.half_close) {
    if (side.decode_open) side.decode_notice = true;
    return EndStream(request);
  }
  if (message.is_data && prefill_owner_ != request) Violation("sent from a block in its next life");
  if (!side.decode_open) return;
  if (side.receiver_over) return EndStream(request);  // no such attempt is expected
  if (!message.is_data) {
    return ToReceiver(request, ReceiveEvent::ControlReceived{kStream, message.control});
  }
  const uint64_t id = side.next_message_id++;
  const std::string header = message.header.SerializeAsString();
  side.held[id] = {message.header, prefill_content_};
  ToReceiver(request,
             ReceiveEvent::DataReceived{kStream, id, header, Crc32c(header.data(), header.size()),
                                        message.payload_bytes});
}

void InterleavingWorld::Answer(int request) {
  Side& side = At(request);
  const PushResponse answer = std::move(side.to_prefill.front());
  side.to_prefill.pop_front();
  ToSender(request, SendEvent::Response{answer, 0});
}

// Both ends hear of it, each in its time; what was on its way is lost.
void InterleavingWorld::EndStream(int request) {
  Side& side = At(request);
  for (const Message& message : std::exchange(side.to_decode, {})) {
    side.released_slices += message.is_data ? 1 : 0;
  }
  if (side.prefill_open) side.prefill_notice = true;
  if (std::exchange(side.decode_open, false)) side.decode_notice = true;
}

void InterleavingWorld::ToReceiver(int request, const ReceiveEvent::Any& event, absl::Time now) {
  Side& side = At(request);
  if (side.receiver == nullptr || side.receiver_over) return;
  auto receiver = std::make_shared<ReceiveMachine>(*side.receiver);
  const std::vector<ReceiveAction::Any> actions = receiver->Handle(event, now);
  side.receiver = receiver;
  for (const ReceiveAction::Any& action : actions) Execute(request, action);
}

void InterleavingWorld::Execute(int request, const ReceiveAction::Any& action) {
  Side& side = At(request);
  if (std::holds_alternative<ReceiveAction::TakeBlocks>(action)) {
    side.asked_for_blocks = true;
  } else if (const auto* send = std::get_if<ReceiveAction::Send>(&action)) {
    if (side.decode_open && side.prefill_open) side.to_prefill.push_back(send->message);
  } else if (std::holds_alternative<ReceiveAction::EndStream>(action)) {
    // The answers before it still arrive.
    side.decode_open = false;
    if (side.prefill_open) side.prefill_notice = true;
  } else if (const auto* copy = std::get_if<ReceiveAction::Copy>(&action)) {
    BeginCopy(request, *copy);
  } else if (const auto* drop = std::get_if<ReceiveAction::Drop>(&action)) {
    if (side.held.erase(drop->message_id) != 1) Violation("a message is dropped twice");
  } else if (std::holds_alternative<ReceiveAction::CommitSequence>(action)) {
    if (side.committed || side.failed || !side.copies.empty()) Violation("a commit after the end");
    side.committed = true;
    if (static_cast<int>(side.right.size()) != options_.messages) Violation("committed a hole");
    for (const int content : decode_content_) {
      if (content != request) Violation("committed another request's K and V");
    }
  } else if (std::holds_alternative<ReceiveAction::Failed>(action)) {
    if (side.committed || side.failed) Violation("a failure after the end");
    side.failed = true;
  } else if (std::holds_alternative<ReceiveAction::ReleaseBlocks>(action)) {
    if (!side.copies.empty()) Violation("blocks given back under a copy");
    if (decode_owner_ != request) Violation("blocks given back twice");
    decode_owner_ = -1;
    side.receiver_over = true;
  }
}

void InterleavingWorld::BeginCopy(int request, const ReceiveAction::Copy& copy) {
  Side& side = At(request);
  if (decode_owner_ != request || !side.granted || side.committed) {
    Violation("a copy into somebody else's block");
  }
  for (const LayerTokens& range : copy.ranges) {
    const int end = KvPages(range.tokens.end);
    for (int page = range.tokens.begin / kKvPageTokens; page < end; ++page) {
      if (!side.in_copy.insert(page).second) Violation("two copies into one page");
      if (side.right.count(page) > 0) Violation("a copy into a covered page");
    }
  }
  side.copies[copy.copy_id] = copy;
}

void InterleavingWorld::FinishCopy(int request, uint64_t copy_id) {
  Side& side = At(request);
  const ReceiveAction::Copy copy = side.copies.at(copy_id);
  side.copies.erase(copy_id);
  if (decode_owner_ != request) return Violation("a late write into somebody else's block");
  ReceiveEvent::CopyDone done{copy_id, true, {}, {}};
  const int content = side.held.at(copy.message_id).content;
  for (const LayerTokens& range : copy.ranges) {
    const int end = KvPages(range.tokens.end);
    for (int page = range.tokens.begin / kKvPageTokens; page < end; ++page) {
      decode_content_[static_cast<size_t>(page)] = content;
      done.page_crcs.push_back(CrcOf(content, page));
      side.in_copy.erase(page);
      if (content == request) side.right.insert(page);
    }
  }
  ToReceiver(request, done);
}

void InterleavingWorld::KillPrefill() {
  prefill_owner_ = -1;
  for (Side& side : sides_) {
    if (!side.prefill_started || side.sender_over) continue;
    side.sender_over = true;
    side.prefill_open = side.prefill_notice = false;
    side.to_decode.clear();
    side.to_prefill.clear();
    side.live_slices = side.released_slices = 0;
    if (std::exchange(side.decode_open, false)) side.decode_notice = true;
  }
}

void InterleavingWorld::KillDecode() {
  decode_owner_ = -1;
  for (Side& side : sides_) {
    if (!side.decode_started || side.receiver_over) continue;
    side.receiver_over = true;
    side.decode_open = side.decode_notice = false;
    side.copies.clear();
    side.held.clear();
    side.to_prefill.clear();
    if (side.prefill_open) side.prefill_notice = true;
  }
}

}  // namespace baton
