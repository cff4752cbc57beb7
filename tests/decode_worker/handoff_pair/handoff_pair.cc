#include "tests/decode_worker/handoff_pair/handoff_pair.h"

#include <algorithm>

#include "gtest/gtest.h"

#include "common/handoff/carried_tokens.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

using internal::v1::PushAbort;

internal::v1::PushOpen Open(const PairOptions& options, const std::vector<int32_t>& token_ids) {
  internal::v1::PushOpen open;
  open.mutable_key()->set_request_id_high(options.seed + 1);
  open.mutable_key()->set_request_id_low(2);
  open.mutable_key()->set_attempt(1);
  open.set_capability("0123456789abcdef");
  open.mutable_identity()->set_protocol_version(kProtocolVersion);
  open.mutable_identity()->set_architecture("llama");
  open.mutable_identity()->set_weights_digest(std::string(32, 'w'));
  open.mutable_shape()->set_layers(3);
  open.mutable_shape()->set_kv_heads(1);
  open.mutable_shape()->set_head_dim(4);
  open.mutable_shape()->set_dtype("f16");
  open.mutable_shape()->add_wire_dtypes("f16");
  open.mutable_shape()->set_block_size(static_cast<uint32_t>(options.sender_block_size));
  SetLayerStates(PairLayout(options.sender_block_size, options.windows), *open.mutable_shape());
  open.set_wire_dtype("f16");
  open.set_token_count(static_cast<uint32_t>(options.tokens));
  const std::vector<uint64_t> hashes = PageHashes(open.identity(), "", "", token_ids);
  open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
  return open;
}

}  // namespace

HandoffPair::HandoffPair(const PairOptions& options)
    : run_(options),
      sender_memory_(run_, options.sender_block_size, options.sender_staging_pages),
      receiver_memory_(run_, options.receiver_block_size, options.receiver_staging_pages),
      oracle_(run_, receiver_memory_.blocks),
      network_(
          run_,
          {.message = [this](PushStreamId stream,
                             const std::string& bytes) { receiver_.Message(stream, bytes); },
           .lost =
               [this](PushStreamId stream) { receiver_.Deliver(ReceiveEvent::StreamLost{stream}); },
           .answer =
               [this](int stream, const internal::v1::PushResponse& answer) {
                 sender_.Deliver(SendEvent::Response{answer, stream});
               },
           .ended =
               [this](int stream) {
                 sender_.Deliver(
                     SendEvent::StreamEnded{absl::UnavailableError("stream ended"), stream});
               }}),
      sender_(run_, sender_memory_, network_, oracle_),
      receiver_(run_, receiver_memory_, network_, oracle_) {
  FillRight(sender_memory_.blocks, options.tokens, options.tokens);
  FillRight(receiver_memory_.blocks, options.tokens, options.cached_by_receiver);
  std::vector<int32_t> token_ids;
  for (int i = 0; i < options.tokens; ++i) token_ids.push_back(i * 7 + 1);
  const internal::v1::PushOpen open = Open(options, token_ids);
  receiver_.Start(open, token_ids);
  sender_.Start(open, token_ids);
}

HandoffPair::HandoffPair(const PairOptions& options, const HandoffPair& broken)
    : HandoffPair(options) {
  receiver_memory_.host = broken.receiver_memory_.host;
  receiver_memory_.blocks.block_table = broken.receiver_memory_.blocks.block_table;
}

std::vector<std::pair<HandoffPair::What, int>> HandoffPair::Choices() const {
  std::vector<std::pair<What, int>> choices;
  const auto add = [&choices](bool possible, What what, int stream = 0) {
    if (possible) choices.emplace_back(what, stream);
  };
  add(sender_.has_engine_event(), What::kEngineEvent);
  for (const int stream : network_.streams()) {
    add(network_.HasMessages(stream), What::kToReceiver, stream);
    add(network_.HasAnswers(stream), What::kToSender, stream);
  }
  add(receiver_.has_host_copy(), What::kHostCopy);
  add(sender_.has_copy(), What::kSenderCopy);
  add(sender_.has_staged(), What::kSenderStaged);
  add(receiver_.has_copy(), What::kReceiverCopy);
  add(receiver_.has_staged(), What::kReceiverStaged);
  return choices;
}

void HandoffPair::Step(What what, int stream) {
  switch (what) {
    case What::kEngineEvent:
      return sender_.NextEngineEvent();
    case What::kToReceiver:
      return network_.DeliverToReceiver(stream);
    case What::kToSender:
      return network_.DeliverToSender(stream);
    case What::kHostCopy:
      return receiver_.FinishHostCopy();
    case What::kSenderCopy:
      return sender_.EndCopy();
    case What::kSenderStaged:
      return sender_.NextStaged();
    case What::kReceiverCopy:
      return receiver_.EndCopy();
    case What::kReceiverStaged:
      return receiver_.NextStaged();
  }
}

void HandoffPair::CancelSome() {
  if (!sender_.status() && run_.Strikes(run_.options.cancel_sender)) {
    sender_.Deliver(SendEvent::Abort{PushAbort::REASON_CANCELLED});
  }
  if (!receiver_.committed() && !receiver_.released() &&
      run_.Strikes(run_.options.cancel_receiver)) {
    receiver_.Deliver(ReceiveEvent::Cancelled{});
  }
}

bool HandoffPair::PassTime() {
  const absl::Time next =
      std::min(sender_.machine().NextDeadline(), receiver_.machine().NextDeadline());
  if (next == absl::InfiniteFuture()) return false;
  run_.now = std::max(run_.now, next);
  sender_.Deliver(SendEvent::Tick{});
  receiver_.Deliver(ReceiveEvent::Tick{});
  return true;
}

void HandoffPair::Run() {
  for (int step = 0; step < 20000; ++step) {
    run_.now += absl::Milliseconds(1);
    network_.CutSome();
    CancelSome();
    Settle();
    const auto choices = Choices();
    if (!choices.empty()) {
      const auto [what, stream] = choices[run_.random() % choices.size()];
      Step(what, stream);
    } else if (!PassTime()) {
      break;
    }
    Settle();
    oracle_.CheckCovered();
    if (::testing::Test::HasFailure()) return;
  }
  CheckAtRest();
}

// What one side does may be the other's.
void HandoffPair::Settle() {
  for (int i = 0; i < 2; ++i) {
    receiver_.Settle();
    sender_.Settle();
  }
}

void HandoffPair::CheckAtRest() const {
  EXPECT_TRUE(Choices().empty()) << "it must come to rest, seed " << run_.options.seed;
  sender_.CheckAtRest();
  receiver_.CheckAtRest();
  for (const PairMemory* memory : {&sender_memory_, &receiver_memory_}) {
    if (memory->staging == nullptr) continue;
    EXPECT_EQ(memory->staging->free_slots(), memory->staging->slot_count());
  }
}

}  // namespace baton
