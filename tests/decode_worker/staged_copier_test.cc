// A copy whose pieces are made by helpers of the staging and by the push's thread.
#include "decode_worker/staged_copier.h"

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/make_backend.h"
#include "tests/support/busy_helper.h"
#include "tests/support/late_backend.h"
#include "tests/support/push_messages.h"

namespace baton {
namespace {

const KvLayout kLayout = {.layers = 2, .kv_heads = 1, .head_dim = 8, .block_size = 32};
constexpr int kTokens = 128;
constexpr int kPages = kTokens / kKvPageTokens;
constexpr size_t kPageBytes = 2 * 16 * 16;  // K and V of 16 tokens in one layer

// A message with layer 1 of a sequence, and a copier with one helper, in slots of a page.
class StagedCopierTest : public testing::Test {
 protected:
  void Start(int slots) {
    staging_ = *KvStaging::Create(*cache_, {.bytes = static_cast<uint64_t>(slots) * kPageBytes,
                                            .chunk_tokens = kKvPageTokens,
                                            .helpers = 1});
    ASSERT_EQ(staging_->slot_count(), slots);
    copier_.emplace(*staging_, [this](StagedCopier::Event event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    });
    busy_.emplace(staging_->jobs());
    std::mt19937 random(1);
    for (uint8_t& byte : source_memory_) byte = static_cast<uint8_t>(random());
    header_ = MakeDataHeader(MakeReceiverConfig(kLayout, kTokens), source_, 1, 1, 0, kTokens, 1);
    message_ = *DecodeKvData({grpc::Slice(EncodeData(header_, source_))});
    copier_->Add({.copy_id = 5,
                  .message_id = 1,
                  .header = header_,
                  .ranges = {{1, {0, kTokens}}},
                  .wire_type = kLayout.dtype},
                 message_);
  }
  ~StagedCopierTest() override {
    copier_.reset();
    EXPECT_EQ(staging_->free_slots(), staging_->slot_count());
  }

  // Ends the copies to the device that were begun, hears of them, and goes on.
  std::vector<ReceiveEvent::CopyDone> CopiesEnd(bool abandon = false) {
    while (backend_.copies().EndOne()) {
    }
    std::deque<StagedCopier::Event> events;
    {
      const std::lock_guard lock(mutex_);
      events.swap(events_);
    }
    for (StagedCopier::Event& event : events) copier_->On(std::move(event));
    return copier_->Advance(blocks_, abandon);
  }
  // The helper fills the slot that it has taken over.
  void HelperGoesOn() {
    busy_->End();
    while (backend_.copies().to_device() == 0) std::this_thread::yield();
  }

  LateBackend backend_{*MakeBackend({.device = "cpu", .threads = 1}), LateBackend::Memory::kFar, 1};
  std::unique_ptr<KvCache> cache_ = *KvCache::Create(backend_, kLayout, 4);
  std::vector<uint8_t> source_memory_ = std::vector<uint8_t>(4 * kLayout.block_bytes());
  const KvBlocks source_{source_memory_.data(), kLayout, {1, 3, 0, 2}};
  const KvBlocks blocks_{cache_->Block(0), kLayout, {2, 0, 3, 1}};
  std::unique_ptr<KvStaging> staging_;
  std::mutex mutex_;
  std::deque<StagedCopier::Event> events_;
  std::optional<StagedCopier> copier_;
  std::optional<BusyHelper> busy_;
  internal::v1::KvDataHeader header_;
  KvDataMessage message_;
};

TEST_F(StagedCopierTest, ItsCrcsAreInTheOrderOfPagesWhicheverPieceIsCopiedFirst) {
  Start(/*slots=*/kPages);
  EXPECT_TRUE(copier_->Advance(blocks_, false).empty());
  EXPECT_EQ(backend_.copies().to_device(), kPages - 1) << "the first waits for the helper";
  EXPECT_TRUE(CopiesEnd().empty()) << "the first piece is not there";
  HelperGoesOn();
  const std::vector<ReceiveEvent::CopyDone> done = CopiesEnd();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].copy_id, 5u);
  EXPECT_TRUE(done[0].ok);
  EXPECT_EQ(done[0].page_crcs,
            std::vector<uint32_t>(header_.page_crc32c().begin(), header_.page_crc32c().end()));
  for (int token = 0; token < kTokens; ++token) {
    for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      EXPECT_EQ(std::memcmp(backend_.Near(blocks_.Row(1, part, token)), source_.Row(1, part, token),
                            kLayout.row_bytes()),
                0)
          << "token " << token;
    }
  }
}

TEST_F(StagedCopierTest, AnAbandonedCopyEndsWithTheLastSlotThatAHelperFills) {
  Start(/*slots=*/2);
  EXPECT_TRUE(copier_->Advance(blocks_, false).empty());
  EXPECT_EQ(backend_.copies().to_device(), 1) << "the first waits for the helper";
  EXPECT_TRUE(CopiesEnd(/*abandon=*/true).empty()) << "the helper still reads the message";
  EXPECT_EQ(backend_.copies().to_device(), 0) << "nobody needs more of it";
  HelperGoesOn();
  const std::vector<ReceiveEvent::CopyDone> done = CopiesEnd(/*abandon=*/true);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_FALSE(done[0].ok);
}

TEST_F(StagedCopierTest, AMessageThatAHelperFindsTooShortIsNotOk) {
  Start(/*slots=*/kPages);
  message_.slices = {grpc::Slice("short")};
  message_.payload_offset = 0;
  EXPECT_TRUE(copier_->Advance(blocks_, false).empty());
  busy_->End();
  std::vector<ReceiveEvent::CopyDone> done;
  while (done.empty()) done = CopiesEnd();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_FALSE(done[0].ok);
  EXPECT_EQ(backend_.copies().to_device(), 0);
}

}  // namespace
}  // namespace baton
