#include "decode_worker/kv_receiver.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/crc32c.h"
#include "common/rpc/kv_blocks.h"
#include "decode_worker/payload_copier.h"
#include "prefill_worker/kv_buffer.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using internal::v1::PushAbort;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using State = KvReceiver::State;

constexpr int kTokens = 50;  // pages of 16, 16, 16 and 2
constexpr KvReceiver::StreamId kStream = 7;

class ReceiverTest : public ::testing::Test {
 protected:
  ReceiverTest() {
    layout_ = {.layers = 2, .kv_heads = 1, .head_dim = 4, .block_size = 32};
    source_memory_.resize(layout_.block_bytes() * 2);
    for (size_t i = 0; i < source_memory_.size(); ++i) {
      source_memory_[i] = static_cast<uint8_t>(i * 37 >> 2);
    }
    source_ = {source_memory_.data(), layout_, {1, 0}};
    Restart();
  }

  void Restart() {
    target_memory_.assign(layout_.block_bytes() * 3, 0xEE);
    target_ = {target_memory_.data(), layout_, {2, 1}};
    config_ = {};
    config_.key.set_request_id_low(5);
    config_.key.set_attempt(2);
    config_.capability = "0123456789abcdef";
    config_.identity.set_architecture("llama");
    config_.shape.set_layers(2);
    config_.shape.set_kv_heads(1);
    config_.shape.set_head_dim(4);
    config_.shape.set_dtype("f16");
    config_.shape.set_block_size(32);
    config_.layout = layout_;
    for (int i = 0; i < kTokens; ++i) config_.token_ids.push_back(i);
    config_.page_hashes = PageHashes(config_.identity, "", "", config_.token_ids);
    config_.prompt_length = kTokens;
    config_.vocab_size = 100;
    config_.limits.window_bytes = 4000;
    receiver_.emplace(config_, now_);
    actions_.clear();
    next_message_ = 1;
  }

  void Do(const KvReceiver::Event& event) {
    for (KvReceiver::Action& action : receiver_->Handle(event, now_)) actions_.push_back(action);
  }
  PushRequest OpenMessage() const {
    PushRequest request;
    auto& open = *request.mutable_open();
    *open.mutable_key() = config_.key;
    open.set_capability(config_.capability);
    *open.mutable_identity() = config_.identity;
    *open.mutable_shape() = config_.shape;
    open.set_wire_dtype("f16");
    open.set_token_count(kTokens);
    open.mutable_page_hashes()->Add(config_.page_hashes.begin(), config_.page_hashes.end());
    return request;
  }
  void Open() { Do(KvReceiver::ControlReceived{kStream, OpenMessage()}); }
  void Receive() {
    Open();
    Do(KvReceiver::Granted{0});
  }
  KvDataHeader Header(int layer, int layers, int first, int end, uint64_t sequence_number) const {
    KvDataHeader header;
    *header.mutable_key() = config_.key;
    header.set_sequence_number(sequence_number);
    header.set_first_layer(static_cast<uint32_t>(layer));
    header.set_layer_count(static_cast<uint32_t>(layers));
    header.set_first_token(static_cast<uint32_t>(first));
    header.set_token_count(static_cast<uint32_t>(end - first));
    header.set_kv_head_count(1);
    for (int l = layer; l < layer + layers; ++l) {
      for (int token = first; token < end; token += kKvPageTokens) {
        header.add_page_crc32c(source_.PageCrc(l, token, std::min(end, token + kKvPageTokens)));
      }
    }
    return header;
  }
  // The message as it arrives; what the receiver asked for afterwards stays in actions_.
  uint64_t Data(const KvDataHeader& header) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(MakeKvBuffer(header, source_, [] {}).Dump(&slices).ok());
    return Arrive(std::move(slices));
  }
  uint64_t Arrive(std::vector<grpc::Slice> slices) {
    auto message = DecodeKvData(std::move(slices));
    if (!message.ok()) {
      Do(KvReceiver::Malformed{kStream, "malformed"});
      return 0;
    }
    const uint64_t id = next_message_++;
    messages_[id] = *message;
    Do(KvReceiver::DataReceived{kStream, id, message->header, message->header_crc32c,
                                message->payload_bytes});
    return id;
  }
  std::vector<KvReceiver::Copy> TakeCopies() {
    auto copies = Taken<KvReceiver::Copy>();
    std::erase_if(actions_, [](const KvReceiver::Action& action) {
      return std::holds_alternative<KvReceiver::Copy>(action);
    });
    return copies;
  }
  void FinishCopies() {
    for (auto copies = TakeCopies(); !copies.empty(); copies = TakeCopies()) {
      for (const auto& copy : copies) {
        Do(CopyPayload(copy, messages_.at(copy.message_id), target_));
      }
    }
  }
  PushRequest CommitMessage() const {
    PageCrcTable crcs(2, kTokens);
    for (int layer = 0; layer < 2; ++layer) {
      for (int page = 0; page < 4; ++page) {
        crcs.At(layer, page) = source_.PageCrc(layer, page * 16, std::min(kTokens, page * 16 + 16));
      }
    }
    PushRequest request;
    auto& token = *request.mutable_commit()->add_first_tokens();
    token.mutable_token()->set_token_id(3);
    request.mutable_commit()->set_digest(KvDigest({.identity = config_.identity,
                                                   .token_ids = config_.token_ids,
                                                   .start_token = 0,
                                                   .end_token = kTokens,
                                                   .first_tokens = absl::MakeConstSpan(&token, 1),
                                                   .crcs = crcs}));
    return request;
  }
  void Commit(const PushRequest& commit) { Do(KvReceiver::ControlReceived{kStream, commit}); }

  template <typename A>
  std::vector<A> Taken() const {
    std::vector<A> taken;
    for (const KvReceiver::Action& action : actions_) {
      if (const A* a = std::get_if<A>(&action)) taken.push_back(*a);
    }
    return taken;
  }
  PushRefused::Reason LastRefusal() const {
    PushRefused::Reason reason = PushRefused::REASON_UNSPECIFIED;
    for (const auto& send : Taken<KvReceiver::Send>()) {
      if (send.message.has_refused()) reason = send.message.refused().reason();
    }
    return reason;
  }
  size_t Acks() const {
    size_t acks = 0;
    for (const auto& send : Taken<KvReceiver::Send>()) acks += send.message.has_ack() ? 1 : 0;
    return acks;
  }
  bool HoldsTheSource() const {
    for (int layer = 0; layer < 2; ++layer) {
      for (const auto part : {KvLayout::kKeys, KvLayout::kValues}) {
        for (int token = 0; token < kTokens; ++token) {
          if (!std::equal(source_.Row(layer, part, token),
                          source_.Row(layer, part, token) + layout_.row_bytes(),
                          target_.Row(layer, part, token))) {
            return false;
          }
        }
      }
    }
    return true;
  }

  absl::Time now_ = absl::UnixEpoch();
  KvLayout layout_;
  std::vector<uint8_t> source_memory_, target_memory_;
  KvBlocks source_, target_;
  KvReceiver::Config config_;
  std::optional<KvReceiver> receiver_;
  std::vector<KvReceiver::Action> actions_;
  std::map<uint64_t, KvDataMessage> messages_;
  uint64_t next_message_ = 1;
};

TEST_F(ReceiverTest, WalksFromPromisedToCommitted) {
  EXPECT_EQ(receiver_->state(), State::kPromised);
  Open();
  EXPECT_EQ(receiver_->state(), State::kOpen);
  EXPECT_EQ(Taken<KvReceiver::TakeBlocks>().size(), 1u);
  Do(KvReceiver::Granted{0});
  EXPECT_EQ(receiver_->state(), State::kReceiving);
  Data(Header(0, 2, 0, kTokens, 1));
  EXPECT_EQ(Acks(), 0u) << "not before the copy is checked";
  FinishCopies();
  EXPECT_EQ(Acks(), 1u);
  Commit(CommitMessage());
  EXPECT_EQ(receiver_->state(), State::kCommitted);
  EXPECT_EQ(Taken<KvReceiver::CommitSequence>().size(), 1u);
  EXPECT_TRUE(HoldsTheSource());
  EXPECT_TRUE(Taken<KvReceiver::ReleaseBlocks>().empty());
}

TEST_F(ReceiverTest, AnOpenThatProvesNothingIsTurnedAwayAndHurtsNobody) {
  PushRequest open = OpenMessage();
  open.mutable_open()->set_capability("0123456789abcdeF");
  Do(KvReceiver::ControlReceived{3, open});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_CAPABILITY);
  open = OpenMessage();
  open.mutable_open()->mutable_key()->set_attempt(1);
  Do(KvReceiver::ControlReceived{3, open});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_UNKNOWN_ATTEMPT);
  EXPECT_EQ(receiver_->state(), State::kPromised);
  EXPECT_TRUE(Taken<KvReceiver::Failed>().empty());
  Receive();
  Do(KvReceiver::ControlReceived{4, OpenMessage()});  // a second one
  Do(KvReceiver::StreamLost{4});
  EXPECT_EQ(receiver_->state(), State::kReceiving);
}

TEST_F(ReceiverTest, RefusesWhatDoesNotFitBeforeAByteMoves) {
  const auto refusal_of = [&](const std::function<void(internal::v1::PushOpen&)>& change) {
    Restart();
    PushRequest request = OpenMessage();
    change(*request.mutable_open());
    Do(KvReceiver::ControlReceived{kStream, request});
    EXPECT_TRUE(Taken<KvReceiver::TakeBlocks>().empty());
    EXPECT_EQ(Taken<KvReceiver::Failed>().size(), 1u);
    EXPECT_EQ(receiver_->state(), State::kGone);
    return LastRefusal();
  };
  using internal::v1::PushOpen;
  EXPECT_EQ(refusal_of([](PushOpen& o) { o.mutable_identity()->set_architecture("qwen2"); }),
            PushRefused::REASON_MODEL_MISMATCH);
  EXPECT_EQ(refusal_of([](PushOpen& o) { o.mutable_shape()->set_layers(3); }),
            PushRefused::REASON_SHAPE);
  EXPECT_EQ(refusal_of([](PushOpen& o) { o.mutable_shape()->set_dtype("f32"); }),
            PushRefused::REASON_SHAPE);
  EXPECT_EQ(refusal_of([](PushOpen& o) { o.set_wire_dtype("int8"); }), PushRefused::REASON_SHAPE);
  EXPECT_EQ(refusal_of([](PushOpen& o) { o.set_token_count(kTokens + 1); }),
            PushRefused::REASON_SHAPE);
  EXPECT_EQ(refusal_of([](PushOpen& o) { o.set_page_hashes(1, 0); }), PushRefused::REASON_SHAPE);
}

TEST_F(ReceiverTest, RefusesAHeaderThatLeavesItsRangesWithoutACopy) {
  const auto refused = [&](const std::function<void(KvDataHeader&)>& change, int first = 16,
                           int end = kTokens) {
    Restart();
    Receive();
    Do(KvReceiver::Granted{0});
    KvDataHeader header = Header(0, 2, first, end, 1);
    const size_t payload =
        size_t{header.layer_count()} * header.token_count() * 2 * layout_.row_bytes();
    change(header);
    const std::string bytes = header.SerializeAsString();
    Do(KvReceiver::DataReceived{kStream, 1, bytes, Crc32c(bytes.data(), bytes.size()), payload});
    EXPECT_TRUE(Taken<KvReceiver::Copy>().empty()) << header.ShortDebugString();
    EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
    EXPECT_EQ(Taken<KvReceiver::Drop>().size(), 1u);
    EXPECT_EQ(receiver_->state(), State::kGone);
  };
  refused([](KvDataHeader& h) { h.mutable_key()->set_attempt(1); });
  refused([](KvDataHeader& h) { h.set_sequence_number(0); });
  refused([](KvDataHeader& h) { h.set_first_layer(1); });
  refused([](KvDataHeader& h) { h.set_first_layer(0xFFFFFFFF); });
  refused([](KvDataHeader& h) { h.set_layer_count(0); });
  refused([](KvDataHeader& h) { h.set_layer_count(0xFFFFFFFF); });
  refused([](KvDataHeader& h) { h.set_first_token(32); });
  refused([](KvDataHeader& h) { h.set_first_token(17); });
  refused([](KvDataHeader& h) { h.set_token_count(33); });
  refused([](KvDataHeader& h) { h.set_token_count(0xFFFFFFF0); });
  refused([](KvDataHeader& h) { h.set_kv_head_count(2); });
  refused([](KvDataHeader& h) { h.set_first_kv_head(1); });
  refused([](KvDataHeader& h) { h.add_page_crc32c(1); });
}

TEST_F(ReceiverTest, RefusesTokensThatAreHeldAlready) {
  Open();
  Do(KvReceiver::Granted{32});
  Data(Header(0, 1, 16, 48, 1));
  EXPECT_TRUE(Taken<KvReceiver::Copy>().empty());
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
}

TEST_F(ReceiverTest, RefusesADamagedHeaderBeforeItReadsIt) {
  Receive();
  const std::string bytes = Header(0, 1, 0, 16, 1).SerializeAsString();
  Do(KvReceiver::DataReceived{kStream, 1, bytes, Crc32c(bytes.data(), bytes.size()) ^ 1, 256});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_CHECKSUM);
  EXPECT_TRUE(Taken<KvReceiver::Copy>().empty());
}

TEST_F(ReceiverTest, RefusesMoreThanTheWindow) {
  Receive();
  for (uint64_t i = 1; i <= 3; ++i) Data(Header(0, 2, 0, kTokens, i));  // 1600 bytes each
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
  EXPECT_EQ(receiver_->state(), State::kDraining) << "the first is still being copied";
}

TEST_F(ReceiverTest, ADuplicateIsAcknowledgedAndNotCopied) {
  Receive();
  Data(Header(0, 1, 0, 32, 1));
  FinishCopies();
  Data(Header(0, 1, 0, 32, 1));
  EXPECT_TRUE(Taken<KvReceiver::Copy>().empty());
  EXPECT_EQ(Acks(), 2u);
}

TEST_F(ReceiverTest, ASecondMessageForARangeInCopyWaitsForTheFirst) {
  Receive();
  Data(Header(0, 1, 0, 32, 1));
  const auto first = TakeCopies();
  ASSERT_EQ(first.size(), 1u);
  Data(Header(0, 2, 0, 32, 2));
  EXPECT_TRUE(Taken<KvReceiver::Copy>().empty());
  Do(CopyPayload(first[0], messages_.at(first[0].message_id), target_));
  const auto second = TakeCopies();
  ASSERT_EQ(second.size(), 1u);
  ASSERT_EQ(second[0].runs.size(), 1u) << "only what the first did not bring";
  EXPECT_EQ(second[0].runs[0].layer, 1);
  Do(CopyPayload(second[0], messages_.at(second[0].message_id), target_));
  EXPECT_EQ(Acks(), 2u);
}

TEST_F(ReceiverTest, AsksForADamagedPageThreeTimesAndThenEnds) {
  Receive();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(receiver_->state(), State::kReceiving);
    Data(Header(0, 1, 0, 32, 1));
    auto copies = TakeCopies();
    ASSERT_EQ(copies.size(), 1u);
    auto done = CopyPayload(copies[0], messages_.at(copies[0].message_id), target_);
    done.page_crcs.back() ^= 0x10;
    Do(done);
    EXPECT_EQ(LastRefusal(), PushRefused::REASON_CHECKSUM);
    EXPECT_EQ(copies[0].runs[0].first_token, i == 0 ? 0 : 16) << "the good page is kept";
  }
  EXPECT_EQ(Acks(), 0u);
  EXPECT_EQ(receiver_->state(), State::kGone);
}

TEST_F(ReceiverTest, CommitsOnlyTheWholeAndTheAgreed) {
  const auto attempt = [&](bool all, const std::function<void(PushRequest&)>& change) {
    Restart();
    Receive();
    Data(Header(0, 2, 0, all ? kTokens : 48, 1));
    FinishCopies();
    PushRequest commit = CommitMessage();
    change(commit);
    Commit(commit);
    return receiver_->state() == State::kCommitted;
  };
  EXPECT_TRUE(attempt(true, [](PushRequest&) {}));
  EXPECT_FALSE(attempt(false, [](PushRequest&) {}));
  EXPECT_FALSE(
      attempt(true, [](PushRequest& r) { r.mutable_commit()->mutable_digest()->at(0) ^= 1; }));
  EXPECT_FALSE(attempt(true, [](PushRequest& r) { r.mutable_commit()->clear_digest(); }));
  EXPECT_FALSE(attempt(true, [](PushRequest& r) {
    r.mutable_commit()->mutable_first_tokens(0)->mutable_token()->set_token_id(4);
  })) << "the digest covers the token";
  EXPECT_FALSE(attempt(true, [](PushRequest& r) { r.mutable_commit()->clear_first_tokens(); }));
  EXPECT_FALSE(attempt(true, [](PushRequest& r) {
    r.mutable_commit()->mutable_first_tokens(0)->set_output_index(1);
  }));
}

TEST_F(ReceiverTest, ADigestThatLeavesAMissingPageOutDoesNotReplaceCoverage) {
  Receive();
  Data(Header(0, 2, 0, 48, 1));
  FinishCopies();
  PageCrcTable crcs(2, kTokens);  // the last page as a receiver has it that never saw it
  for (int layer = 0; layer < 2; ++layer) {
    for (int page = 0; page < 3; ++page) {
      crcs.At(layer, page) = source_.PageCrc(layer, page * 16, page * 16 + 16);
    }
  }
  PushRequest commit = CommitMessage();
  commit.mutable_commit()->set_digest(
      KvDigest({.identity = config_.identity,
                .token_ids = config_.token_ids,
                .start_token = 0,
                .end_token = kTokens,
                .first_tokens = absl::MakeConstSpan(&commit.commit().first_tokens(0), 1),
                .crcs = crcs}));
  Commit(commit);
  EXPECT_EQ(receiver_->state(), State::kGone);
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_INCOMPLETE);
}

TEST_F(ReceiverTest, ACheckpointIsTrueOrThePushEnds) {
  Receive();
  Data(Header(0, 2, 0, 32, 1));
  FinishCopies();
  PageCrcTable crcs(2, kTokens);
  for (int layer = 0; layer < 2; ++layer) {
    for (int page = 0; page < 2; ++page) {
      crcs.At(layer, page) = source_.PageCrc(layer, page * 16, page * 16 + 16);
    }
  }
  PushRequest request;
  request.mutable_checkpoint()->set_end_token(32);
  request.mutable_checkpoint()->set_digest(KvDigest({.identity = config_.identity,
                                                     .token_ids = config_.token_ids,
                                                     .start_token = 0,
                                                     .end_token = 32,
                                                     .first_tokens = {},
                                                     .crcs = crcs}));
  Do(KvReceiver::ControlReceived{kStream, request});
  EXPECT_EQ(receiver_->checkpointed_tokens(), 32);
  request.mutable_checkpoint()->set_end_token(48);
  Do(KvReceiver::ControlReceived{kStream, request});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_INCOMPLETE);
  EXPECT_EQ(receiver_->checkpointed_tokens(), 32);
}

TEST_F(ReceiverTest, GivesTheBlocksBackAtTheLastCopyOnly) {
  for (const bool lost : {false, true}) {
    Restart();
    Receive();
    Data(Header(0, 1, 0, 32, 1));
    Data(Header(1, 1, 0, 32, 2));
    const auto copies = TakeCopies();
    ASSERT_EQ(copies.size(), 2u);
    if (lost) {
      Do(KvReceiver::StreamLost{kStream});
      EXPECT_EQ(Taken<KvReceiver::Failed>().size(), 1u);
    } else {
      Do(KvReceiver::Cancelled{});
    }
    EXPECT_EQ(receiver_->state(), State::kDraining);
    Do(CopyPayload(copies[1], messages_.at(copies[1].message_id), target_));
    EXPECT_TRUE(Taken<KvReceiver::ReleaseBlocks>().empty());
    Do(CopyPayload(copies[0], messages_.at(copies[0].message_id), target_));
    EXPECT_EQ(Taken<KvReceiver::ReleaseBlocks>().size(), 1u);
    EXPECT_EQ(receiver_->state(), State::kGone);
    EXPECT_EQ(Acks(), 0u);
  }
}

TEST_F(ReceiverTest, EveryStateEndsOnATimer) {
  for (const State state : {State::kPromised, State::kOpen, State::kReceiving}) {
    Restart();
    receiver_.emplace(config_, now_);
    if (state != State::kPromised) Open();
    if (state == State::kReceiving) Do(KvReceiver::Granted{0});
    ASSERT_EQ(receiver_->state(), state);
    now_ = receiver_->NextDeadline() - absl::Nanoseconds(1);
    Do(KvReceiver::Tick{});
    EXPECT_EQ(receiver_->state(), state);
    now_ += absl::Nanoseconds(1);
    Do(KvReceiver::Tick{});
    EXPECT_EQ(receiver_->state(), State::kGone);
    EXPECT_EQ(Taken<KvReceiver::Failed>().size(), 1u);
    EXPECT_EQ(Taken<KvReceiver::ReleaseBlocks>().size(), 1u);
  }
}

// Any bytes changed anywhere in the encoded message, through decoder, receiver and copier.
TEST_F(ReceiverTest, NoDamageToAMessageIsEverAcknowledgedWithAWrongByteInPlace) {
  std::mt19937_64 random(1);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(MakeKvBuffer(Header(0, 2, 0, kTokens, 1), source_, [] {}).Dump(&slices).ok());
  std::string clean;
  for (const auto& slice : slices) {
    clean.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  int detected = 0;
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds; ++round) {
    Restart();
    messages_.clear();
    Receive();
    std::string bytes = clean;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      switch (random() % 4) {
        case 0:
          bytes[random() % bytes.size()] = static_cast<char>(random());
          break;
        case 1:
          bytes[random() % std::min<size_t>(bytes.size(), 120)] ^=
              static_cast<char>(1 << random() % 8);
          break;
        case 2:
          bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
          break;
        default:
          if (random() % 2 == 0) {
            bytes.resize(1 + random() % bytes.size());
          } else {
            std::swap(bytes[random() % bytes.size()], bytes[random() % bytes.size()]);
          }
      }
    }
    std::vector<grpc::Slice> arrived;
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = std::min<size_t>(bytes.size() - at, 1 + random() % 300);
      arrived.emplace_back(bytes.data() + at, count);
      at += count;
    }
    Arrive(std::move(arrived));
    FinishCopies();
    if (Acks() == 1) {
      ASSERT_TRUE(HoldsTheSource()) << "round " << round;
    } else {
      ++detected;
      ASSERT_NE(LastRefusal(), PushRefused::REASON_UNSPECIFIED);
    }
    for (size_t i = 0; i < layout_.block_bytes(); ++i) {
      ASSERT_EQ(target_memory_[i], 0xEE) << "block 0 is somebody else's";
    }
  }
  EXPECT_GT(detected, kRounds * 9 / 10);
}

}  // namespace
}  // namespace baton
