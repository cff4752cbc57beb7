#include "tests/decode_worker/handoff_pair.h"

#include <algorithm>

#include "gtest/gtest.h"

#include "common/rpc/limits.h"

namespace baton {
namespace {

using internal::v1::PushAbort;

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

}  // namespace

KvLayout HandoffPair::LayoutOf(int block_size) {
  return {.layers = 3, .kv_heads = 1, .head_dim = 4, .block_size = block_size};
}

HandoffPair::HandoffPair(const PairOptions& options) : options_(options), random_(options.seed) {
  const KvLayout sender_layout = LayoutOf(options.sender_block_size);
  const KvLayout receiver_layout = LayoutOf(options.receiver_block_size);
  for (int i = 0; i < options.tokens; ++i) tokens_.push_back(i * 7 + 1);
  sender_memory_ = MakeMemory(options.sender_block_size, options.sender_staging_pages);
  receiver_memory_ = MakeMemory(options.receiver_block_size, options.receiver_staging_pages);
  for (int layer = 0; layer < sender_layout.layers; ++layer) {
    for (int part = 0; part < 2; ++part) {
      for (int token = 0; token < options.tokens; ++token) {
        uint8_t* row = sender_blocks_.Row(layer, static_cast<KvLayout::Part>(part), token);
        for (size_t i = 0; i < sender_layout.row_bytes(); ++i)
          row[i] = ExpectedByte(layer, part, token, i);
      }
    }
  }

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
  open.set_wire_dtype("f16");
  open.set_token_count(static_cast<uint32_t>(options.tokens));
  const std::vector<uint64_t> hashes = PageHashes(open.identity(), "", "", tokens_);
  open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());

  internal::v1::KvShape shape = open.shape();
  shape.set_block_size(static_cast<uint32_t>(options.receiver_block_size));
  receiver_.emplace(ReceiveConfig{.key = open.key(),
                                  .capability = open.capability(),
                                  .identity = open.identity(),
                                  .shape = shape,
                                  .layout = receiver_layout,
                                  .token_ids = tokens_,
                                  .page_hashes = hashes,
                                  .prompt_length = options.tokens,
                                  .vocab_size = 1000,
                                  .limits = {.window_bytes = options.window_bytes}},
                    now_);
  sender_.emplace(SendConfig{.open = open,
                             .layout = sender_layout,
                             .token_ids = tokens_,
                             .limits = {.max_payload_bytes = options.max_payload_bytes,
                                        .min_payload_bytes = options.min_payload_bytes},
                             .streams = options.streams});

  engine_events_.push_back(SendEvent::Begin{});
  for (int first = 0; first < options.tokens;) {
    const int end = first == 0 && options.cached_by_sender > 0
                        ? options.cached_by_sender
                        : std::min(options.tokens, (first / 64 + 1) * 64);
    for (int layer = 0; layer < sender_layout.layers; ++layer) {
      SendEvent::LayerReady ready{{layer, {first, end}}, {}};
      for (const TokenRange page : PagesOf({first, end})) {
        ready.page_crcs.push_back(sender_blocks_.PageCrc(layer, page));
      }
      engine_events_.push_back(ready);
    }
    engine_events_.push_back(SendEvent::ChunkReady{end});
    first = end;
  }
  if (options.finish_at_first_token) {
    engine_events_.push_back(SendEvent::Abort{PushAbort::REASON_FINISHED_AT_FIRST_TOKEN});
  } else {
    SendEvent::FirstToken first_token;
    first_token.token.mutable_token()->set_token_id(5);
    engine_events_.push_back(first_token);
  }
  MakeStagers();
}

std::vector<std::pair<int, int>> HandoffPair::Choices() const {
  std::vector<std::pair<int, int>> choices;
  if (next_engine_event_ < engine_events_.size()) choices.emplace_back(0, 0);
  for (const auto& [id, stream] : streams_) {
    if (!stream.to_receiver.empty()) choices.emplace_back(1, id);
    if (!stream.to_sender.empty()) choices.emplace_back(2, id);
  }
  if (!copies_.empty() && !copier_.has_value()) choices.emplace_back(3, 0);
  if (stager_.has_value() && sender_memory_.backend->copies().to_host() > 0) {
    choices.emplace_back(4, 0);
  }
  if (!sender_staged_.empty()) choices.emplace_back(5, 0);
  if (copier_.has_value() && receiver_memory_.backend->copies().to_device() > 0) {
    choices.emplace_back(6, 0);
  }
  if (!receiver_staged_.empty()) choices.emplace_back(7, 0);
  return choices;
}

void HandoffPair::Run() {
  for (int step = 0; step < 20000; ++step) {
    now_ += absl::Milliseconds(1);
    CutStreams();
    if (!sender_status_ && Chance(options_.cancel_sender)) {
      ++faults_;
      Deliver(SendEvent::Abort{PushAbort::REASON_CANCELLED});
    }
    if (!committed_ && !receiver_released_ && Chance(options_.cancel_receiver)) {
      ++faults_;
      Deliver(ReceiveEvent::Cancelled{});
    }
    Settle();
    const auto choices = Choices();
    if (!choices.empty()) {
      const auto [choice, stream] = choices[random_() % choices.size()];
      Step(choice, stream);
    } else {
      const absl::Time next = std::min(sender_->NextDeadline(), receiver_->NextDeadline());
      if (next == absl::InfiniteFuture()) break;
      now_ = std::max(now_, next);
      Deliver(SendEvent::Tick{});
      Deliver(ReceiveEvent::Tick{});
    }
    Settle();
    CheckCovered();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_TRUE(Choices().empty()) << "it must come to rest, seed " << options_.seed;
  EXPECT_TRUE(sender_->gone());
  EXPECT_TRUE(sender_released_);
  EXPECT_EQ(slices_alive_, 0);
  EXPECT_TRUE(committed_ != receiver_released_) << "one owner of the blocks, always";
  EXPECT_TRUE(messages_.empty());
  for (const Memory* memory : {&sender_memory_, &receiver_memory_}) {
    if (memory->staging == nullptr) continue;
    EXPECT_EQ(memory->staging->free_slots(), memory->staging->slot_count());
  }
}

void HandoffPair::Step(int choice, int stream) {
  switch (choice) {
    case 0:
      if (!EngineEventIsStaged(engine_events_[next_engine_event_])) {
        Deliver(engine_events_[next_engine_event_]);
      }
      ++next_engine_event_;
      return;
    case 1:
      return DeliverToReceiver(stream);
    case 2:
      return DeliverToSender(stream);
    case 3:
      return FinishOneCopy();
    case 4:
      EXPECT_TRUE(sender_memory_.backend->copies().EndOne());
      return;
    case 5:
      stager_->On(std::move(sender_staged_.front()));
      return sender_staged_.pop_front();
    case 6:
      EXPECT_TRUE(receiver_memory_.backend->copies().EndOne());
      return;
    default:
      copier_->On(std::move(receiver_staged_.front()));
      return receiver_staged_.pop_front();
  }
}

void HandoffPair::Deliver(const SendEvent::Any& event) {
  for (const SendAction::Any& action : sender_->Handle(event, now_)) {
    std::visit(Overloaded{
                   [&](const SendAction::OpenStream& open) {
                     EXPECT_LT(open.stream, options_.streams);
                     EXPECT_EQ(streams_.count(open.stream), 0u);
                     streams_[open.stream].open = true;
                     streams_[open.stream].to_receiver.push_back(
                         {false, open.first.SerializeAsString(), nullptr});
                   },
                   [&](const SendAction::SendControl& control) {
                     if (!streams_[0].open) return;
                     if (control.drop_queued) DropQueuedData();
                     streams_[0].to_receiver.push_back(
                         {false, control.message.SerializeAsString(), nullptr});
                   },
                   [&](const SendAction::SendData& data) { SendData(data); },
                   [&](const SendAction::HalfClose&) {},
                   [&](const SendAction::CancelStream& cancel) { EndStream(cancel.stream); },
                   [&](const SendAction::DropChannel&) {
                     for (const auto& [id, stream] : streams_) EndStream(id);
                   },
                   [&](const SendAction::Finished& finished) {
                     EXPECT_FALSE(sender_status_) << "finished once";
                     sender_status_ = finished.status;
                     report_ = finished.report;
                   },
                   [&](const SendAction::ReleaseBlocks&) {
                     EXPECT_EQ(slices_alive_, 0) << "blocks given back under live slices";
                     EXPECT_FALSE(sender_released_ || sender_may_release_);
                     sender_may_release_ = true;
                   },
               },
               action);
  }
}

void HandoffPair::Deliver(const ReceiveEvent::Any& event) {
  for (const ReceiveAction::Any& action : receiver_->Handle(event, now_)) {
    std::visit(Overloaded{
                   [&](const ReceiveAction::TakeBlocks&) {
                     granted_ = true;
                     Deliver(ReceiveEvent::Granted{options_.cached_by_receiver});
                   },
                   [&](const ReceiveAction::Send& send) {
                     if (send.message.has_ack()) {
                       const auto& header = sent_headers_.at(send.message.ack().sequence_number());
                       const int end =
                           static_cast<int>(header.first_token() + header.token_count());
                       for (uint32_t layer = 0; layer < header.layer_count(); ++layer) {
                         for (int page = static_cast<int>(header.first_token()) / kKvPageTokens;
                              page < KvPages(end); ++page) {
                           covered_.insert({static_cast<int>(header.first_layer() + layer), page});
                         }
                       }
                     }
                     if (send.message.has_refused()) ++refusals_;
                     Stream& stream = streams_.at(AtSender(send.stream));
                     if (stream.open) stream.to_sender.push_back(send.message);
                   },
                   [&](const ReceiveAction::EndStream& end) {
                     // The answers sent before still arrive.
                     Stream& stream = streams_.at(AtSender(end.stream));
                     if (stream.open) stream.to_sender.emplace_back();
                   },
                   [&](const ReceiveAction::Copy& copy) {
                     CheckCopy(copy);
                     if (copier_.has_value()) new_copies_.push_back(copy);
                   },
                   [&](const ReceiveAction::Drop& drop) {
                     EXPECT_EQ(messages_.erase(drop.message_id), 1u) << "dropped once";
                   },
                   [&](const ReceiveAction::CommitSequence&) { CheckSequence(); },
                   [&](const ReceiveAction::Failed& failed) {
                     EXPECT_FALSE(committed_) << failed.status.ToString();
                   },
                   [&](const ReceiveAction::ReleaseBlocks&) {
                     EXPECT_TRUE(copies_.empty()) << "blocks given back under a copy";
                     if (copier_.has_value()) {
                       EXPECT_EQ(receiver_memory_.backend->copies().to_device(), 0);
                     }
                     EXPECT_FALSE(receiver_released_);
                     receiver_released_ = true;
                   },
               },
               action);
  }
}

}  // namespace baton
