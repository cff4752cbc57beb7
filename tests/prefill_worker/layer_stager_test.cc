#include "prefill_worker/layer_stager.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/backend/make_backend.h"
#include "common/base/float_types.h"
#include "common/base/kv_type_name.h"
#include "common/handoff/kv_wire.h"
#include "prefill_worker/kv_buffer.h"
#include "tests/support/busy_helper.h"
#include "tests/support/late_backend.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

const KvLayout kLayout = {.layers = 3, .kv_heads = 1, .head_dim = 128, .block_size = 32};
constexpr size_t kPageBytes = 2 * 16 * 256;  // K and V of 16 tokens in one layer
constexpr int kChunk = 64;
constexpr int kTokens = 8 * kChunk;

// A prompt whose layers are all computed, its machine and its stager.
class LayerStagerTest : public testing::Test {
 protected:
  void Start(int staging_pages, uint32_t start_token = 0) {
    backend_ = std::make_unique<LateBackend>(*MakeBackend({.device = "cpu", .threads = 1}),
                                             LateBackend::Memory::kFar, 1);
    const int blocks = kLayout.BlocksFor(kTokens);
    cache_ = *KvCache::Create(*backend_, kLayout, blocks);
    staging_ =
        *KvStaging::Create(*cache_, {.bytes = static_cast<uint64_t>(staging_pages) * kPageBytes,
                                     .chunk_tokens = 64,
                                     .helpers = helpers_});
    blocks_ = {cache_->Block(0), kLayout, std::vector<int32_t>(static_cast<size_t>(blocks))};
    std::iota(blocks_.block_table.begin(), blocks_.block_table.end(), 0);
    near_ = blocks_;
    near_.base = backend_->Near(blocks_.base);
    std::mt19937 random(1);
    std::normal_distribution<float> value;
    for (size_t i = 0; i < static_cast<size_t>(blocks) * kLayout.block_bytes(); i += 2) {
      const uint16_t half = F32ToF16(value(random));
      std::memcpy(near_.base + i, &half, sizeof(half));
    }
    generations_.assign(static_cast<size_t>(blocks), 1);
    NewPush(start_token);
  }
  ~LayerStagerTest() override {
    if (backend_ == nullptr) return;
    while (backend_->copies().EndOne()) {
    }
    HearUntilIdle();
    stager_.reset();
    EXPECT_EQ(staging_->free_slots(), staging_->slot_count());
  }

  void NewPush(uint32_t start_token) {
    if (stager_.has_value()) HearUntilIdle();
    stager_.emplace(
        LayerStager::Options{.staging = staging_.get(),
                             .wire = KvWireFormat(kLayout, wire_),
                             .post =
                                 [this](LayerStager::Event event) {
                                   const std::lock_guard lock(mutex_);
                                   events_.push_back(std::move(event));
                                 },
                             .block_generation = [this](int32_t) { return generation_; }});
    SendConfig config;
    config.layout = kLayout;
    config.token_ids.resize(kTokens);
    config.open.set_token_count(kTokens);
    config.open.set_wire_dtype(KvTypeName(wire_));
    config.limits.min_payload_bytes = 0;
    sender_.emplace(config);
    Tell(SendEvent::Begin{});
    for (int first = 0; first < kTokens; first += kChunk) {
      for (int layer = 0; layer < kLayout.layers; ++layer) {
        stager_->Add(SendEvent::LayerReady{{layer, {first, first + kChunk}}, {}},
                     backend_->copies().Mark());
      }
      stager_->Add(SendEvent::ChunkReady{first + kChunk});
    }
    Advance();
    EXPECT_TRUE(told_.empty() && stager_->idle()) << "the push is not open";
    internal::v1::PushResponse opened;
    opened.mutable_opened()->set_start_token(start_token);
    opened.mutable_opened()->set_window_bytes(1 << 20);
    Tell(SendEvent::Response{opened});
    Advance();
  }

  void Tell(const SendEvent::Any& event) {
    for (SendAction::Any& action : sender_->Handle(event, absl::UnixEpoch())) {
      if (const auto* data = std::get_if<SendAction::SendData>(&action)) {
        sent_.push_back(data->header);
        first_rows_.push_back(stager_->Send(data->header));
      }
    }
  }
  void Advance() {
    for (SendEvent::Any& event : stager_->Advance(*sender_, {blocks_, generations_})) {
      Tell(event);
      told_.push_back(std::move(event));
    }
  }
  // Ends all copies, hears of them, and goes on; false when there was nothing to hear of.
  bool CopiesEnd() {
    const bool ended = backend_->copies().EndOne();
    while (backend_->copies().EndOne()) {
    }
    const bool heard = Hear();
    Advance();
    return ended || heard;
  }
  // Hears what was posted; false when nothing was.
  bool Hear() {
    std::deque<LayerStager::Event> events;
    {
      const std::lock_guard lock(mutex_);
      events.swap(events_);
    }
    for (LayerStager::Event& event : events) stager_->On(std::move(event));
    return !events.empty();
  }
  // REQUIRES: all copies have ended.
  void HearUntilIdle() {
    Hear();
    while (!stager_->idle()) {
      if (!Hear()) std::this_thread::yield();
    }
  }
  template <class Kind>
  int Told() const {
    return static_cast<int>(std::count_if(told_.begin(), told_.end(), [](const auto& event) {
      return std::holds_alternative<Kind>(event);
    }));
  }
  absl::Status AbortStatus() const {
    const auto* abort = told_.empty() ? nullptr : std::get_if<SendEvent::Abort>(&told_.back());
    return abort == nullptr ? absl::OkStatus() : abort->status;
  }

  KvType wire_ = KvType::kF16;
  int helpers_ = 0;
  std::unique_ptr<LateBackend> backend_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<KvStaging> staging_;
  KvBlocks blocks_;
  KvBlocks near_;  // the same, where the host has the bytes
  std::vector<uint32_t> generations_;
  uint32_t generation_ = 1;
  std::mutex mutex_;
  std::deque<LayerStager::Event> events_;  // guarded by mutex_
  std::optional<LayerStager> stager_;
  std::optional<SendMachine> sender_;
  std::vector<SendEvent::Any> told_;
  std::vector<internal::v1::KvDataHeader> sent_;
  std::vector<std::vector<KvLayerRows>> first_rows_;  // first rows of all messages
};

// Those that hold whatever the type on the wire.
class LayerStagerWireTest : public LayerStagerTest, public testing::WithParamInterface<KvType> {
 protected:
  LayerStagerWireTest() { wire_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(, LayerStagerWireTest, testing::ValuesIn(kAllKvTypes),
                         [](const auto& type) { return KvTypeName(type.param); });

std::string PayloadOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices = *SlicesOf(buffer);
  const KvDataMessage message = *DecodeKvData(std::move(slices));
  std::string payload(message.payload_bytes, '\0');
  SliceReader reader(message.slices, message.payload_offset);
  EXPECT_TRUE(reader.Read(payload.data(), payload.size()));
  return payload;
}

TEST_F(LayerStagerTest, TellsLayersInOrderAndAChunkWhenAllItsLayersAreStaged) {
  Start(/*staging_pages=*/1000);
  EXPECT_TRUE(told_.empty()) << "no copy has ended";
  while (CopiesEnd() || !sent_.empty()) {
    // Acknowledged as soon as sent: the flight grows, and the room is free again.
    for (const auto& header : std::exchange(sent_, {})) {
      stager_->Released(header.sequence_number());
      internal::v1::PushResponse ack;
      ack.mutable_ack()->set_sequence_number(header.sequence_number());
      ack.mutable_ack()->set_window_bytes(1 << 20);
      Tell(SendEvent::Response{ack});
    }
    Advance();
  }
  std::vector<std::pair<int, int>> places;
  int chunks = 0;
  for (const SendEvent::Any& event : told_) {
    if (const auto* layer = std::get_if<SendEvent::LayerReady>(&event)) {
      places.emplace_back(layer->kv.tokens.begin / kChunk, layer->kv.layer);
      EXPECT_EQ(layer->page_crcs.size(), static_cast<size_t>(layer->kv.tokens.size() / 16));
    } else if (const auto* chunk = std::get_if<SendEvent::ChunkReady>(&event)) {
      EXPECT_EQ(chunk->end_token, kChunk * ++chunks);
      EXPECT_EQ(places.back(), std::pair(chunks - 1, kLayout.layers - 1));
    }
  }
  EXPECT_EQ(chunks, kTokens / kChunk);
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
  EXPECT_EQ(stager_->held_bytes(), 0u);
}

TEST_F(LayerStagerTest, WhatTheReceiverHoldsIsNeitherStagedNorTold) {
  Start(/*staging_pages=*/1000, /*start_token=*/144);
  while (CopiesEnd()) {
  }
  ASSERT_GT(Told<SendEvent::LayerReady>(), 0);
  for (const SendEvent::Any& event : told_) {
    if (const auto* layer = std::get_if<SendEvent::LayerReady>(&event)) {
      EXPECT_GE(layer->kv.tokens.begin, 144);
    }
  }
}

TEST_P(LayerStagerWireTest, StagesNoMoreThanThePeerHasUseFor) {
  Start(/*staging_pages=*/1000);
  while (CopiesEnd()) {
    EXPECT_LE(stager_->held_bytes(), 2 * sender_->data().flight_limit_bytes());
  }
  EXPECT_GT(stager_->held_bytes(), sender_->data().flight_limit_bytes())
      << "nothing was acknowledged";
  EXPECT_LT(Told<SendEvent::ChunkReady>(), kTokens / kChunk);
}

TEST_P(LayerStagerWireTest, APageThatIsStagedAgainMustHaveItsCrc) {
  Start(/*staging_pages=*/1000);
  while (CopiesEnd()) {
  }
  ASSERT_TRUE(AbortStatus().ok());
  told_.clear();
  backend_->Near(cache_->Block(0))[kLayout.RowOffset(1, KvLayout::kKeys, 17)] ^= 4;
  NewPush(0);
  while (CopiesEnd()) {
  }
  EXPECT_EQ(AbortStatus().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(AbortStatus().message()), HasSubstr("layer 1, tokens 16 to 31"));
  EXPECT_EQ(Told<SendEvent::Abort>(), 1);
}

TEST_P(LayerStagerWireTest, APieceIsConvertedOnceAndEachOfItsMessagesIsMadeOfThoseBytes) {
  Start(/*staging_pages=*/1000);
  while (CopiesEnd()) {
  }
  ASSERT_GT(sent_.size(), 2u);
  const KvWireFormat format(kLayout, wire_);
  std::vector<std::string> expected;
  for (const auto& header : sent_) {
    expected.push_back(PayloadOf(format.converts()
                                     ? MakeConvertedKvBuffer(header, near_, format, [] {})
                                     : MakeKvBuffer(header, near_, [] {})));
  }
  // From now on the blocks are another's.
  std::memset(near_.base, 0x33, near_.block_table.size() * kLayout.block_bytes());
  for (size_t i = 0; i < sent_.size(); ++i) {
    EXPECT_EQ(PayloadOf(MakeKvBuffer(sent_[i], first_rows_[i], [] {})), expected[i]);
    const std::vector<KvLayerRows> again = stager_->Send(sent_[i]);
    EXPECT_EQ(PayloadOf(MakeKvBuffer(sent_[i], again, [] {})), expected[i]);
    size_t crc = 0;
    for (size_t layer = 0; layer < again.size(); ++layer) {
      EXPECT_EQ(again[layer].blocks, first_rows_[i][layer].blocks) << "the same memory";
      for (const TokenRange page : PagesOf(TokensOf(sent_[i]))) {
        EXPECT_EQ(again[layer].PageCrc(page), sent_[i].page_crc32c(static_cast<int>(crc++)));
      }
    }
  }
}

TEST_F(LayerStagerTest, AValueThatTheWireTypeCannotSayEndsThePush) {
  wire_ = KvType::kInt8;
  Start(/*staging_pages=*/1000);
  const uint16_t infinity = 0x7c00;
  std::memcpy(near_.Row(1, KvLayout::kValues, 35), &infinity, sizeof(infinity));
  while (CopiesEnd()) {
  }
  EXPECT_EQ(AbortStatus().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(AbortStatus().message()), HasSubstr("layer 1, tokens 32 to 47"));
}

TEST_F(LayerStagerTest, ABlockThatIsAnothersBeforeItsCopyHasEndedEndsThePush) {
  Start(/*staging_pages=*/1000);
  generation_ = 2;
  EXPECT_TRUE(CopiesEnd());
  EXPECT_EQ(AbortStatus().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Told<SendEvent::LayerReady>(), 0);
}

TEST_P(LayerStagerWireTest, PiecesThatOneHelperMakesLastAreToldInTheOrderInWhichTheyWereComputed) {
  helpers_ = 1;
  Start(/*staging_pages=*/1000);
  BusyHelper busy(staging_->jobs());
  EXPECT_TRUE(CopiesEnd());
  EXPECT_FALSE(stager_->idle()) << "the helper has the piece whose copy ended first";
  const int told = Told<SendEvent::LayerReady>();
  busy.End();
  HearUntilIdle();
  Advance();
  EXPECT_GT(Told<SendEvent::LayerReady>(), told + 1) << "others waited for it";
  std::vector<std::pair<int, int>> places;
  for (const SendEvent::Any& event : told_) {
    const auto* layer = std::get_if<SendEvent::LayerReady>(&event);
    if (layer != nullptr) places.emplace_back(layer->kv.tokens.begin, layer->kv.layer);
  }
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
}

TEST_F(LayerStagerTest, AnEndedPushIsNotIdleAndKeepsTheSlotWhileAHelperHasAPiece) {
  helpers_ = 1;
  Start(/*staging_pages=*/1000);
  BusyHelper busy(staging_->jobs());
  EXPECT_TRUE(CopiesEnd());
  Tell(SendEvent::Abort{});
  Advance();
  EXPECT_EQ(backend_->copies().to_host(), 0);
  EXPECT_FALSE(stager_->idle());
  EXPECT_LT(staging_->free_slots(), staging_->slot_count());
  busy.End();
  HearUntilIdle();
  Advance();
  EXPECT_EQ(staging_->free_slots(), staging_->slot_count());
  EXPECT_EQ(Told<SendEvent::Abort>(), 0);
}

TEST_F(LayerStagerTest, AnEndedPushHoldsNoSlotAndIsIdleWithItsLastCopyOnly) {
  Start(/*staging_pages=*/8);
  EXPECT_FALSE(stager_->idle());
  Tell(SendEvent::Abort{});
  Advance();
  EXPECT_FALSE(stager_->idle()) << "copies read the blocks";
  EXPECT_LT(staging_->free_slots(), staging_->slot_count());
  while (CopiesEnd()) {
  }
  EXPECT_TRUE(stager_->idle());
  EXPECT_EQ(staging_->free_slots(), staging_->slot_count());
  EXPECT_EQ(Told<SendEvent::LayerReady>(), 0);
}

}  // namespace
}  // namespace baton
