#include "decode_worker/receive_machine.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/crc32c.h"
#include "common/handoff/kv_blocks.h"
#include "decode_worker/payload_copier.h"
#include "prefill_worker/kv_buffer.h"
#include "tests/decode_worker/receive_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using State = ReceiveMachine::State;

TEST_F(ReceiveMachineTest, WalksFromReservedToCommitted) {
  EXPECT_EQ(receiver_->state(), State::kReserved);
  Open();
  EXPECT_EQ(receiver_->state(), State::kOpen);
  EXPECT_EQ(Taken<ReceiveAction::TakeBlocks>().size(), 1u);
  Do(ReceiveEvent::Granted{0});
  EXPECT_EQ(receiver_->state(), State::kReceiving);
  Data(Header(0, 2, 0, kTokens, 1));
  EXPECT_EQ(Acks(), 0u) << "not before the copy is checked";
  FinishCopies();
  EXPECT_EQ(Acks(), 1u);
  Commit(CommitMessage());
  EXPECT_EQ(receiver_->state(), State::kCommitted);
  EXPECT_EQ(Taken<ReceiveAction::CommitSequence>().size(), 1u);
  EXPECT_TRUE(HoldsTheSource());
  EXPECT_TRUE(Taken<ReceiveAction::ReleaseBlocks>().empty());
}

TEST_F(ReceiveMachineTest, AnOpenThatProvesNothingIsTurnedAwayAndHurtsNobody) {
  PushRequest open = OpenMessage();
  open.mutable_open()->set_capability("0123456789abcdeF");
  Do(ReceiveEvent::ControlReceived{3, open});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_CAPABILITY);
  open = OpenMessage();
  open.mutable_open()->mutable_key()->set_attempt(1);
  Do(ReceiveEvent::ControlReceived{3, open});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_UNKNOWN_ATTEMPT);
  EXPECT_EQ(receiver_->state(), State::kReserved);
  EXPECT_TRUE(Taken<ReceiveAction::Failed>().empty());
  Receive();
  Do(ReceiveEvent::ControlReceived{4, OpenMessage()});  // a second one
  Do(ReceiveEvent::StreamLost{4});
  EXPECT_EQ(receiver_->state(), State::kReceiving);
}

TEST_F(ReceiveMachineTest, RefusesWhatDoesNotFitBeforeAByteMoves) {
  const auto refusal_of = [&](const std::function<void(internal::v1::PushOpen&)>& change) {
    Restart();
    PushRequest request = OpenMessage();
    change(*request.mutable_open());
    Do(ReceiveEvent::ControlReceived{kStream, request});
    EXPECT_TRUE(Taken<ReceiveAction::TakeBlocks>().empty());
    EXPECT_EQ(Taken<ReceiveAction::Failed>().size(), 1u);
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

TEST_F(ReceiveMachineTest, RefusesAHeaderThatLeavesItsRangesWithoutACopy) {
  const auto refused = [&](const std::function<void(KvDataHeader&)>& change, int first = 16,
                           int end = kTokens) {
    Restart();
    Receive();
    Do(ReceiveEvent::Granted{0});
    KvDataHeader header = Header(0, 2, first, end, 1);
    const size_t payload =
        size_t{header.layer_count()} * header.token_count() * 2 * layout_.row_bytes();
    change(header);
    const std::string bytes = header.SerializeAsString();
    Do(ReceiveEvent::DataReceived{kStream, 1, bytes, Crc32c(bytes.data(), bytes.size()), payload});
    EXPECT_TRUE(Taken<ReceiveAction::Copy>().empty()) << header.ShortDebugString();
    EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
    EXPECT_EQ(Taken<ReceiveAction::Drop>().size(), 1u);
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
  refused([](KvDataHeader& h) { h.clear_state_kind(); });
  refused([](KvDataHeader& h) { h.set_state_kind(internal::v1::LAYER_STATE_KIND_LATENT_ROWS); });
  refused([](KvDataHeader& h) { h.add_page_crc32c(1); });
}

TEST_F(ReceiveMachineTest, RefusesTokensThatAreHeldAlready) {
  Open();
  Do(ReceiveEvent::Granted{32});
  Data(Header(0, 1, 16, 48, 1));
  EXPECT_TRUE(Taken<ReceiveAction::Copy>().empty());
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
}

TEST_F(ReceiveMachineTest, RefusesADamagedHeaderBeforeItReadsIt) {
  Receive();
  const std::string bytes = Header(0, 1, 0, 16, 1).SerializeAsString();
  Do(ReceiveEvent::DataReceived{kStream, 1, bytes, Crc32c(bytes.data(), bytes.size()) ^ 1, 256});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_CHECKSUM);
  EXPECT_TRUE(Taken<ReceiveAction::Copy>().empty());
}

TEST_F(ReceiveMachineTest, RefusesMoreThanTheWindow) {
  Receive();
  for (uint64_t i = 1; i <= 3; ++i) Data(Header(0, 2, 0, kTokens, i));  // 1600 bytes each
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
  EXPECT_EQ(receiver_->state(), State::kDraining) << "the first is still being copied";
}

TEST_F(ReceiveMachineTest, ADuplicateIsAcknowledgedAndNotCopied) {
  Receive();
  Data(Header(0, 1, 0, 32, 1));
  FinishCopies();
  Data(Header(0, 1, 0, 32, 1));
  EXPECT_TRUE(Taken<ReceiveAction::Copy>().empty());
  EXPECT_EQ(Acks(), 2u);
}

TEST_F(ReceiveMachineTest, ASecondMessageForARangeInCopyWaitsForTheFirst) {
  Receive();
  Data(Header(0, 1, 0, 32, 1));
  const auto first = TakeCopies();
  ASSERT_EQ(first.size(), 1u);
  Data(Header(0, 2, 0, 32, 2));
  EXPECT_TRUE(Taken<ReceiveAction::Copy>().empty());
  Do(CopyPayload(first[0], messages_.at(first[0].message_id), target_));
  const auto second = TakeCopies();
  ASSERT_EQ(second.size(), 1u);
  ASSERT_EQ(second[0].ranges.size(), 1u) << "only what the first did not bring";
  EXPECT_EQ(second[0].ranges[0].layer, 1);
  Do(CopyPayload(second[0], messages_.at(second[0].message_id), target_));
  EXPECT_EQ(Acks(), 2u);
}

TEST_F(ReceiveMachineTest, AsksForADamagedPageThreeTimesAndThenEnds) {
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
    EXPECT_EQ(copies[0].ranges[0].tokens.begin, i == 0 ? 0 : 16) << "the good page is kept";
  }
  EXPECT_EQ(Acks(), 0u);
  EXPECT_EQ(receiver_->state(), State::kGone);
}

TEST_F(ReceiveMachineTest, CommitsOnlyTheWholeAndTheAgreed) {
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
  EXPECT_FALSE(attempt(true, [](PushRequest& r) {
    r.mutable_commit()->mutable_first_tokens(0)->set_guessed(true);
  }));
  EXPECT_FALSE(attempt(true, [](PushRequest& r) {
    r.mutable_commit()->mutable_first_tokens(0)->set_refused_guesses(1);
  }));
}

TEST_F(ReceiveMachineTest, ADigestThatLeavesAMissingPageOutDoesNotReplaceCoverage) {
  Receive();
  Data(Header(0, 2, 0, 48, 1));
  FinishCopies();
  PageCrcTable crcs(2, kTokens);  // the last page as a receiver has it that never saw it
  for (int layer = 0; layer < 2; ++layer) {
    for (int page = 0; page < 3; ++page) {
      crcs.At(layer, page) = source_.PageCrc(layer, {page * 16, page * 16 + 16});
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

TEST_F(ReceiveMachineTest, ACheckpointIsTrueOrThePushEnds) {
  Receive();
  Data(Header(0, 2, 0, 32, 1));
  FinishCopies();
  PageCrcTable crcs(2, kTokens);
  for (int layer = 0; layer < 2; ++layer) {
    for (int page = 0; page < 2; ++page) {
      crcs.At(layer, page) = source_.PageCrc(layer, {page * 16, page * 16 + 16});
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
  Do(ReceiveEvent::ControlReceived{kStream, request});
  EXPECT_EQ(LastCheckpoint(), 32u);
  request.mutable_checkpoint()->set_end_token(48);
  Do(ReceiveEvent::ControlReceived{kStream, request});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_INCOMPLETE);
  EXPECT_EQ(LastCheckpoint(), 32u);
}

TEST_F(ReceiveMachineTest, GivesTheBlocksBackAtTheLastCopyOnly) {
  for (const bool lost : {false, true}) {
    Restart();
    Receive();
    Data(Header(0, 1, 0, 32, 1));
    Data(Header(1, 1, 0, 32, 2));
    const auto copies = TakeCopies();
    ASSERT_EQ(copies.size(), 2u);
    if (lost) {
      Do(ReceiveEvent::StreamLost{kStream});
      EXPECT_EQ(Taken<ReceiveAction::Failed>().size(), 1u);
    } else {
      Do(ReceiveEvent::Cancelled{});
    }
    EXPECT_EQ(receiver_->state(), State::kDraining);
    Do(CopyPayload(copies[1], messages_.at(copies[1].message_id), target_));
    EXPECT_TRUE(Taken<ReceiveAction::ReleaseBlocks>().empty());
    Do(CopyPayload(copies[0], messages_.at(copies[0].message_id), target_));
    EXPECT_EQ(Taken<ReceiveAction::ReleaseBlocks>().size(), 1u);
    EXPECT_EQ(receiver_->state(), State::kGone);
    EXPECT_EQ(Acks(), 0u);
  }
}

TEST_F(ReceiveMachineTest, EveryStateEndsOnATimer) {
  for (const State state : {State::kReserved, State::kOpen, State::kReceiving}) {
    Restart();
    receiver_.emplace(config_, now_);
    if (state != State::kReserved) Open();
    if (state == State::kReceiving) Do(ReceiveEvent::Granted{0});
    ASSERT_EQ(receiver_->state(), state);
    now_ = receiver_->NextDeadline() - absl::Nanoseconds(1);
    Do(ReceiveEvent::Tick{});
    EXPECT_EQ(receiver_->state(), state);
    now_ += absl::Nanoseconds(1);
    Do(ReceiveEvent::Tick{});
    EXPECT_EQ(receiver_->state(), State::kGone);
    EXPECT_EQ(Taken<ReceiveAction::Failed>().size(), 1u);
    EXPECT_EQ(Taken<ReceiveAction::ReleaseBlocks>().size(), 1u);
  }
}

TEST_F(ReceiveMachineTest, LostEventsEndTheAttemptInEveryStateBeforeItsCommit) {
  for (const State state : {State::kReserved, State::kOpen, State::kReceiving}) {
    Restart();
    if (state != State::kReserved) Open();
    if (state == State::kReceiving) Do(ReceiveEvent::Granted{0});
    ASSERT_EQ(receiver_->state(), state);
    for (int twice = 0; twice < 2; ++twice) Do(ReceiveEvent::EventsLost{});
    EXPECT_EQ(receiver_->state(), State::kGone);
    EXPECT_EQ(Taken<ReceiveAction::Failed>().size(), 1u);
    EXPECT_EQ(Taken<ReceiveAction::ReleaseBlocks>().size(), 1u);
  }
  Restart();
  Receive();
  Data(Header(0, 2, 0, kTokens, 1));
  FinishCopies();
  Commit(CommitMessage());
  Do(ReceiveEvent::EventsLost{});
  EXPECT_EQ(receiver_->state(), State::kCommitted);
  EXPECT_TRUE(Taken<ReceiveAction::Failed>().empty());
}

// Any bytes changed anywhere in the encoded message, through decoder, receiver and copier.
TEST_F(ReceiveMachineTest, NoDamageToAMessageIsEverAcknowledgedWithAWrongByteInPlace) {
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
