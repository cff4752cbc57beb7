#include "tests/decode_worker/handoff_pair.h"

#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"

#include "prefill_worker/kv_buffer.h"

namespace baton {
namespace {

using internal::v1::PushAbort;
using internal::v1::PushRequest;
using internal::v1::PushResponse;

constexpr KvReceiver::StreamId kStream = 1;

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

std::vector<int32_t> ShuffledTable(int blocks, int pool, std::mt19937_64& random) {
  std::vector<int32_t> ids(static_cast<size_t>(pool));
  for (int i = 0; i < pool; ++i) ids[static_cast<size_t>(i)] = i;
  std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(static_cast<size_t>(blocks));
  return ids;
}

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
  const int pool = 40;
  sender_memory_.assign(static_cast<size_t>(pool) * sender_layout.block_bytes(), kCanary);
  receiver_memory_.assign(static_cast<size_t>(pool) * receiver_layout.block_bytes(), kCanary);
  sender_blocks_ = {sender_memory_.data(), sender_layout,
                    ShuffledTable(sender_layout.BlocksFor(options.tokens), pool, random_)};
  receiver_blocks_ = {receiver_memory_.data(), receiver_layout,
                      ShuffledTable(receiver_layout.BlocksFor(options.tokens), pool, random_)};
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
  open.mutable_identity()->set_protocol_version(1);
  open.mutable_identity()->set_architecture("llama");
  open.mutable_identity()->set_weights_digest(std::string(32, 'w'));
  open.mutable_shape()->set_layers(3);
  open.mutable_shape()->set_kv_heads(1);
  open.mutable_shape()->set_head_dim(4);
  open.mutable_shape()->set_dtype("f16");
  open.mutable_shape()->set_block_size(static_cast<uint32_t>(options.sender_block_size));
  open.set_wire_dtype("f16");
  open.set_token_count(static_cast<uint32_t>(options.tokens));
  const std::vector<uint64_t> hashes = PageHashes(open.identity(), "", "", tokens_);
  open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());

  internal::v1::KvShape shape = open.shape();
  shape.set_block_size(static_cast<uint32_t>(options.receiver_block_size));
  receiver_.emplace(KvReceiver::Config{.key = open.key(),
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
  sender_.emplace(KvSender::Config{.open = open,
                                   .layout = sender_layout,
                                   .token_ids = tokens_,
                                   .limits = {.max_payload_bytes = options.max_payload_bytes,
                                              .min_payload_bytes = options.min_payload_bytes}});

  engine_events_.push_back(KvSender::Begin{});
  for (int first = 0; first < options.tokens;) {
    const int end = first == 0 && options.cached_by_sender > 0
                        ? options.cached_by_sender
                        : std::min(options.tokens, (first / 64 + 1) * 64);
    for (int layer = 0; layer < sender_layout.layers; ++layer) {
      KvSender::LayerReady ready{layer, first, end - first, {}};
      for (int token = first; token < end; token += kKvPageTokens) {
        ready.page_crcs.push_back(
            sender_blocks_.PageCrc(layer, token, std::min(end, token + kKvPageTokens)));
      }
      engine_events_.push_back(ready);
    }
    engine_events_.push_back(KvSender::ChunkReady{end});
    first = end;
  }
  if (options.finish_at_first_token) {
    engine_events_.push_back(KvSender::Abort{PushAbort::REASON_FINISHED_AT_FIRST_TOKEN});
  } else {
    KvSender::FirstToken first_token;
    first_token.token.mutable_token()->set_token_id(5);
    engine_events_.push_back(first_token);
  }
}

HandoffPair::~HandoffPair() = default;

std::vector<int> HandoffPair::Choices() const {
  std::vector<int> choices;
  if (next_engine_event_ < engine_events_.size()) choices.push_back(0);
  if (!to_receiver_.empty()) choices.push_back(1);
  if (!to_sender_.empty()) choices.push_back(2);
  if (!copies_.empty()) choices.push_back(3);
  return choices;
}

void HandoffPair::Run() {
  for (int step = 0; step < 20000; ++step) {
    now_ += absl::Milliseconds(1);
    if (stream_open_ && Chance(options_.cut)) {
      ++faults_;
      EndStream();
    }
    if (!sender_status_ && Chance(options_.cancel_sender)) {
      ++faults_;
      Deliver(KvSender::Abort{PushAbort::REASON_CANCELLED});
    }
    if (!committed_ && !receiver_released_ && Chance(options_.cancel_receiver)) {
      ++faults_;
      Deliver(KvReceiver::Cancelled{});
    }
    const std::vector<int> choices = Choices();
    if (!choices.empty()) {
      Step(choices[random_() % choices.size()]);
    } else {
      const absl::Time next = std::min(sender_->NextDeadline(), receiver_->NextDeadline());
      if (next == absl::InfiniteFuture()) break;
      now_ = std::max(now_, next);
      Deliver(KvSender::Tick{});
      Deliver(KvReceiver::Tick{});
    }
    CheckCovered();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_TRUE(Choices().empty()) << "it must come to rest, seed " << options_.seed;
  EXPECT_TRUE(sender_->gone());
  EXPECT_TRUE(sender_released_);
  EXPECT_EQ(slices_alive_, 0);
  EXPECT_TRUE(committed_ != receiver_released_) << "one owner of the blocks, always";
  EXPECT_TRUE(messages_.empty());
}

void HandoffPair::Step(int choice) {
  switch (choice) {
    case 0:
      return Deliver(engine_events_[next_engine_event_++]);
    case 1:
      return DeliverToReceiver();
    case 2:
      return DeliverToSender();
    default:
      return FinishOneCopy();
  }
}

void HandoffPair::Deliver(const KvSender::Event& event) {
  for (const KvSender::Action& action : sender_->Handle(event, now_)) {
    std::visit(Overloaded{
                   [&](const KvSender::OpenStream& open) {
                     stream_open_ = true;
                     to_receiver_.push_back({false, open.first.SerializeAsString(), nullptr});
                   },
                   [&](const KvSender::SendControl& control) {
                     if (!stream_open_) return;
                     if (control.drop_queued) {
                       std::deque<ToReceiver> kept;
                       for (ToReceiver& message : to_receiver_) {
                         if (message.is_data) {
                           message.released();
                         } else {
                           kept.push_back(std::move(message));
                         }
                       }
                       to_receiver_ = std::move(kept);
                     }
                     to_receiver_.push_back({false, control.message.SerializeAsString(), nullptr});
                   },
                   [&](const KvSender::SendData& data) {
                     EXPECT_LE(data.payload_bytes, options_.max_payload_bytes);
                     ++slices_alive_;
                     sent_headers_[data.header.sequence_number()] = data.header;
                     const auto released = [this] {
                       --slices_alive_;
                       Deliver(KvSender::SlicesReleased{});
                     };
                     // Flattened at delivery only: until then the slices are alive.
                     ToReceiver message{
                         true, Flatten(MakeKvBuffer(data.header, sender_blocks_, [] {})), released};
                     to_receiver_.push_back(std::move(message));
                     if (!stream_open_) {
                       to_receiver_.back().released();
                       to_receiver_.pop_back();
                     } else if (to_receiver_.size() > 1 && Chance(options_.reorder)) {
                       ++faults_;
                       ToReceiver& other = to_receiver_[to_receiver_.size() - 2];
                       if (other.is_data) std::swap(other, to_receiver_.back());
                     }
                   },
                   [&](const KvSender::HalfClose&) {},
                   [&](const KvSender::CancelStream&) { EndStream(); },
                   [&](const KvSender::DropChannel&) { EndStream(); },
                   [&](const KvSender::Finished& finished) {
                     EXPECT_FALSE(sender_status_) << "finished once";
                     sender_status_ = finished.status;
                     report_ = finished.report;
                   },
                   [&](const KvSender::ReleaseBlocks&) {
                     EXPECT_EQ(slices_alive_, 0) << "blocks given back under live slices";
                     EXPECT_FALSE(sender_released_);
                     sender_released_ = true;
                   },
               },
               action);
  }
}

void HandoffPair::Deliver(const KvReceiver::Event& event) {
  for (const KvReceiver::Action& action : receiver_->Handle(event, now_)) {
    std::visit(Overloaded{
                   [&](const KvReceiver::TakeBlocks&) {
                     granted_ = true;
                     Deliver(KvReceiver::Granted{options_.cached_by_receiver});
                   },
                   [&](const KvReceiver::Send& send) {
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
                     if (stream_open_) to_sender_.push_back(send.message);
                   },
                   [&](const KvReceiver::EndStream&) {
                     // The answers sent before still arrive.
                     PushResponse last;
                     to_sender_.push_back(last);
                   },
                   [&](const KvReceiver::Copy& copy) { CheckCopy(copy); },
                   [&](const KvReceiver::Drop& drop) {
                     EXPECT_EQ(messages_.erase(drop.message_id), 1u) << "dropped once";
                   },
                   [&](const KvReceiver::CommitSequence&) { CheckSequence(); },
                   [&](const KvReceiver::Failed& failed) {
                     EXPECT_FALSE(committed_) << failed.status.ToString();
                   },
                   [&](const KvReceiver::ReleaseBlocks&) {
                     EXPECT_TRUE(copies_.empty()) << "blocks given back under a copy";
                     EXPECT_FALSE(receiver_released_);
                     receiver_released_ = true;
                   },
               },
               action);
  }
}

void HandoffPair::DeliverToReceiver() {
  ToReceiver message = std::move(to_receiver_.front());
  to_receiver_.pop_front();
  std::vector<std::string> copies = {message.bytes};
  if (message.is_data) {
    if (Chance(options_.drop)) {
      ++faults_;
      copies.clear();
    } else if (Chance(options_.duplicate)) {
      ++faults_;
      copies.push_back(message.bytes);
    }
    if (!copies.empty() && Chance(options_.corrupt)) {
      ++faults_;
      std::string& bytes = copies[random_() % copies.size()];
      bytes[random_() % bytes.size()] ^= static_cast<char>(1 << random_() % 8);
    }
    message.released();
  }
  for (const std::string& bytes : copies) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = std::min<size_t>(bytes.size() - at, 1 + random_() % 700);
      slices.emplace_back(bytes.data() + at, count);
      at += count;
    }
    if (!IsKvData(slices)) {
      KvReceiver::ControlReceived control{kStream, {}};
      if (control.message.ParseFromString(bytes)) {
        Deliver(control);
      } else {
        Deliver(KvReceiver::Malformed{kStream, "not a message"});
      }
      continue;
    }
    absl::StatusOr<KvDataMessage> data = DecodeKvData(std::move(slices));
    if (!data.ok()) {
      Deliver(KvReceiver::Malformed{kStream, std::string(data.status().message())});
      continue;
    }
    const uint64_t id = next_message_id_++;
    const KvReceiver::DataReceived received{kStream, id, data->header, data->header_crc32c,
                                            data->payload_bytes};
    messages_.emplace(id, *std::move(data));
    Deliver(received);
  }
}

void HandoffPair::DeliverToSender() {
  const PushResponse message = std::move(to_sender_.front());
  to_sender_.pop_front();
  if (message.event_case() == PushResponse::EVENT_NOT_SET) return EndStream();
  Deliver(KvSender::Response{message});
}

void HandoffPair::EndStream() {
  if (!stream_open_) return;
  stream_open_ = false;
  for (ToReceiver& message : std::exchange(to_receiver_, {})) {
    if (message.is_data) message.released();
  }
  to_sender_.clear();
  Deliver(KvSender::StreamEnded{absl::UnavailableError("stream ended")});
  Deliver(KvReceiver::StreamLost{kStream});
}

void HandoffPair::FinishOneCopy() {
  const size_t index = random_() % copies_.size();
  const KvReceiver::Copy copy = copies_[index];
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(index));
  const KvReceiver::CopyDone done =
      CopyPayload(copy, messages_.at(copy.message_id), receiver_blocks_);
  for (const KvReceiver::Run& run : copy.runs) {
    const int end = KvPages(run.first_token + run.token_count);
    for (int page = run.first_token / kKvPageTokens; page < end; ++page) {
      in_copy_.erase({run.layer, page});
    }
  }
  Deliver(done);
}

}  // namespace baton
