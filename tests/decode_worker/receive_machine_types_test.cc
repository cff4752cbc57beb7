// The receiver where the sender's KV, or the wire's, is of another type than its own.
#include <cmath>
#include <random>

#include "gmock/gmock.h"

#include "common/base/crc32c.h"
#include "common/base/float_types.h"
#include "common/base/kv_type_name.h"
#include "common/handoff/kv_wire_choice.h"
#include "prefill_worker/page_encoder.h"
#include "tests/decode_worker/receive_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;
using internal::v1::PushOpen;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using ::testing::HasSubstr;
using State = ReceiveMachine::State;

// The receiver's cache and the sender's are f16; what travels is `wire_`.
class ReceiverTypes : public ReceiveMachineTest {
 protected:
  ReceiverTypes() {
    std::mt19937 random(5);
    std::normal_distribution<float> value(0, 2);
    auto* halves = reinterpret_cast<uint16_t*>(source_memory_.data());
    for (size_t i = 0; i < source_memory_.size() / 2; ++i) halves[i] = F32ToF16(value(random));
  }
  void Restart(const std::string& wanted, bool strict) {
    ReceiveMachineTest::Restart();
    config_.shape.set_numerics("cpu/f16");
    config_.cache_salt = "salt";
    SetWireTypes(wanted, strict, config_.shape);
    config_.strict_kv_dtype = strict;
    config_.page_hashes = PageHashes(config_.identity, "salt", "cpu/f16", config_.token_ids);
    receiver_.emplace(config_, now_);
  }
  // The Open of a sender of `dtype` and these numerics.
  PushRequest OpenAs(const std::string& dtype, const std::string& numerics,
                     const std::string& wire) {
    PushRequest request = OpenMessage();
    PushOpen& open = *request.mutable_open();
    open.mutable_shape()->set_dtype(dtype);
    open.mutable_shape()->set_numerics(numerics);
    open.set_wire_dtype(wire);
    if (const auto type = KvTypeFromName(wire); type.ok()) {
      const auto hashes =
          PageHashes(config_.identity, "salt", StoredNumerics(open.shape(), *type, config_.shape),
                     config_.token_ids);
      open.mutable_page_hashes()->Assign(hashes.begin(), hashes.end());
    }
    return request;
  }
  void OpenWith(const PushRequest& open) { Do(ReceiveEvent::ControlReceived{kStream, open}); }
  std::string FailureOf(const PushRequest& open) {
    OpenWith(open);
    EXPECT_TRUE(Taken<ReceiveAction::TakeBlocks>().empty());
    EXPECT_EQ(LastRefusal(), PushRefused::REASON_SHAPE);
    const auto failed = Taken<ReceiveAction::Failed>();
    EXPECT_EQ(failed.size(), 1u);
    return failed.empty() ? "" : std::string(failed[0].status.message());
  }
  // With the CRCs of what goes over the wire.
  KvDataHeader WireHeader(const KvWireFormat& wire, int first, int end, uint64_t sequence_number) {
    KvDataHeader header = Header(0, 2, first, end, sequence_number);
    header.clear_page_crc32c();
    for (int layer = 0; layer < 2; ++layer) {
      for (const uint32_t crc : WireCrcs(wire, layer, first, end)) header.add_page_crc32c(crc);
    }
    return header;
  }
  std::vector<uint32_t> WireCrcs(const KvWireFormat& wire, int layer, int first, int end) {
    std::vector<uint32_t> cached;
    for (int token = first; token < end; token += kKvPageTokens) {
      cached.push_back(source_.PageCrc(layer, {token, std::min(end, token + kKvPageTokens)}));
    }
    return *WirePageCrcs(RowsOfLayer(source_, layer), wire, {first, end}, cached);
  }
  void ArriveAs(const KvWireFormat& wire, const KvDataHeader& header) {
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(MakeConvertedKvBuffer(header, source_, wire, [] {}).Dump(&slices).ok());
    Arrive(std::move(slices));
  }
  PushRequest CommitOf(const KvWireFormat& wire) {
    PushRequest request = CommitMessage();
    PageCrcTable crcs(2, kTokens);
    for (int layer = 0; layer < 2; ++layer) {
      int page = 0;
      for (const uint32_t crc : WireCrcs(wire, layer, 0, kTokens)) crcs.At(layer, page++) = crc;
    }
    const auto& token = request.commit().first_tokens(0);
    request.mutable_commit()->set_digest(KvDigest({.identity = config_.identity,
                                                   .token_ids = config_.token_ids,
                                                   .start_token = 0,
                                                   .end_token = kTokens,
                                                   .first_tokens = absl::MakeConstSpan(&token, 1),
                                                   .crcs = crcs}));
    return request;
  }
};

TEST_F(ReceiverTypes, AWireTypeThatItDoesNotTakeIsRefusedWithBothNamed) {
  Restart("auto", false);
  const std::string why = FailureOf(OpenAs("f16", "cpu/f16", "int8"));
  EXPECT_THAT(why, HasSubstr("wire_dtype is int8"));
  EXPECT_THAT(why, HasSubstr("takes f16, f32, bf16"));
  Restart("int8", false);
  EXPECT_THAT(FailureOf(OpenAs("f16", "cpu/f16", "fp8")), HasSubstr("wire_dtype is fp8"));
  Restart("int8", false);
  OpenWith(OpenAs("f16", "cpu/f16", "int8"));
  EXPECT_EQ(Taken<ReceiveAction::TakeBlocks>().size(), 1u);
}

TEST_F(ReceiverTypes, AStrictReceiverRefusesAnotherKvTypeWhateverTravels) {
  for (const char* wire : {"f32", "f16"}) {
    Restart("auto", true);
    EXPECT_THAT(FailureOf(OpenAs("f32", "cpu/f32", wire)), HasSubstr("--strict-kv-dtype"));
  }
  Restart("auto", false);
  OpenWith(OpenAs("f32", "cpu/f32", "f16"));
  EXPECT_EQ(Taken<ReceiveAction::TakeBlocks>().size(), 1u);
}

TEST_F(ReceiverTypes, PageHashesAreOfTheNumericsThatWillBeStored) {
  Restart("int8", false);
  PushRequest open = OpenAs("f16", "cpu/f16", "int8");
  open.mutable_open()->mutable_page_hashes()->Assign(config_.page_hashes.begin(),
                                                     config_.page_hashes.end());
  EXPECT_THAT(FailureOf(open), HasSubstr("page_hashes"));
}

TEST_F(ReceiverTypes, OnlyWhatKeepsEveryBitIsCommittedAsExact) {
  struct Case {
    const char* dtype;
    const char* numerics;
    KvType wire;
    bool exact;
  };
  for (const Case& c :
       {Case{"f16", "cpu/f16", KvType::kF32, true}, Case{"f32", "cpu/f32", KvType::kF32, false},
        Case{"f16", "cuda-sm90-invariant1/f16", KvType::kF32, false},
        Case{"f16", "cpu/f16", KvType::kInt8, false}}) {
    Restart("int8", false);
    const KvWireFormat wire(layout_, c.wire);
    OpenWith(OpenAs(c.dtype, c.numerics, KvTypeName(c.wire)));
    Do(ReceiveEvent::Granted{0});
    ArriveAs(wire, WireHeader(wire, 0, 32, 1));
    ArriveAs(wire, WireHeader(wire, 32, kTokens, 2));
    FinishCopies();
    EXPECT_EQ(Acks(), 2u);
    EXPECT_EQ(HoldsTheSource(), c.wire == KvType::kF32);
    Commit(CommitOf(wire));
    ASSERT_EQ(receiver_->state(), State::kCommitted);
    ASSERT_EQ(Taken<ReceiveAction::CommitSequence>().size(), 1u);
    EXPECT_EQ(Taken<ReceiveAction::CommitSequence>()[0].exact, c.exact) << c.numerics;
  }
}

// On CUDA without --deterministic: shared as this worker's own, and promised to nobody.
TEST_F(ReceiverTypes, WhatVariesIsKeptAsItsOwnAndNeverExact) {
  Restart("auto", false);
  config_.shape.set_numerics("cuda-varying/f16");
  config_.page_hashes = PageHashes(config_.identity, "salt", "cuda-varying/f16", config_.token_ids);
  receiver_.emplace(config_, now_);
  const KvWireFormat wire(layout_, KvType::kF32);
  OpenWith(OpenAs("f16", "cuda-varying/f16", "f32"));
  ASSERT_EQ(Taken<ReceiveAction::TakeBlocks>().size(), 1u);
  EXPECT_EQ(Taken<ReceiveAction::TakeBlocks>()[0].numerics, "");
  Do(ReceiveEvent::Granted{0});
  ArriveAs(wire, WireHeader(wire, 0, 32, 1));
  ArriveAs(wire, WireHeader(wire, 32, kTokens, 2));
  FinishCopies();
  Commit(CommitOf(wire));
  ASSERT_EQ(Taken<ReceiveAction::CommitSequence>().size(), 1u);
  EXPECT_FALSE(Taken<ReceiveAction::CommitSequence>()[0].exact);
}

TEST_F(ReceiverTypes, APayloadOfTheCachesSizeIsOutOfRangeWhereAnotherTypeWasOpened) {
  Restart("int8", false);
  OpenWith(OpenAs("f16", "cpu/f16", "f32"));
  Do(ReceiveEvent::Granted{0});
  Data(Header(0, 2, 0, 16, 1));
  EXPECT_TRUE(Taken<ReceiveAction::Copy>().empty());
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
}

TEST_F(ReceiverTypes, AConvertedPageWhoseWireBytesAreDamagedIsAskedForAgain) {
  Restart("int8", false);
  const KvWireFormat wire(layout_, KvType::kInt8);
  OpenWith(OpenAs("f16", "cpu/f16", "int8"));
  Do(ReceiveEvent::Granted{0});
  const KvDataHeader header = WireHeader(wire, 0, 32, 1);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(MakeConvertedKvBuffer(header, source_, wire, [] {}).Dump(&slices).ok());
  std::string payload(reinterpret_cast<const char*>(slices.back().begin()), slices.back().size());
  payload[payload.size() - 1] = static_cast<char>(payload.back() ^ 0x7f);  // a scale: not finite
  slices.back() = grpc::Slice(payload);
  Arrive(std::move(slices));
  FinishCopies();
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_CHECKSUM);
  EXPECT_EQ(receiver_->state(), State::kReceiving);
  EXPECT_EQ(Acks(), 0u);
  ArriveAs(wire, header);
  FinishCopies();
  EXPECT_EQ(Acks(), 1u);
}

TEST_F(ReceiverTypes, ABlockThatChangedAfterItsPagesWereAnnouncedIsSeen) {
  Restart("int8", false);
  const KvWireFormat wire(layout_, KvType::kInt8);
  OpenWith(OpenAs("f16", "cpu/f16", "int8"));
  Do(ReceiveEvent::Granted{0});
  const KvDataHeader header = WireHeader(wire, 0, 32, 1);
  source_.Row(1, KvLayout::kKeys, 17)[5] ^= 0x20;  // twice or half its exponent's worth
  ArriveAs(wire, header);
  FinishCopies();
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_CHECKSUM);
}

}  // namespace
}  // namespace baton
