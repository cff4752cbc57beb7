// The thread of a push: what comes on it, and what becomes of events that come too late or too
// many.
#include "decode_worker/receive_driver.h"

#include <atomic>
#include <future>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/make_backend.h"
#include "tests/support/push_messages.h"

namespace baton {
namespace {

using internal::v1::PushRefused;

constexpr PushStreamId kStream = 7;
constexpr int kTokens = 50;
const KvLayout kLayout = {.layers = 2, .kv_heads = 1, .head_dim = 4, .block_size = 32};

// A push without streams: its answers go nowhere. The blocks are granted as soon as it asks.
class ReceiveDriverTest : public ::testing::Test {
 protected:
  ReceiveDriverTest() : ReceiveDriverTest(kLayout, kTokens, {1, 0}, {2, 1}) {}
  // The tables of the sender's blocks and of the receiver's.
  ReceiveDriverTest(const KvLayout& layout, int tokens, std::vector<int32_t> source,
                    std::vector<int32_t> granted)
      : tokens_(tokens),
        granted_(std::move(granted)),
        backend_(*MakeBackend({.device = "cpu", .threads = 1})),
        cache_(*KvCache::Create(*backend_, layout, static_cast<int>(granted_.size()) + 1)),
        config_(MakeReceiverConfig(layout, tokens)),
        source_memory_(layout.block_bytes() * source.size()),
        source_{source_memory_.data(), layout, std::move(source)} {
    for (size_t i = 0; i < source_memory_.size(); ++i) {
      source_memory_[i] = static_cast<uint8_t>(i * 37 >> 2);
    }
    ReceiveDriver::Callbacks callbacks;
    callbacks.take_blocks = [this](const ReceiveAction::TakeBlocks&) {
      driver_->Grant(granted_, /*start_token=*/0);
      asked_.set_value();
      may_go_on_.wait();
    };
    callbacks.committed = [this](const ReceiveAction::CommitSequence&) { committed_ = true; };
    callbacks.failed = [this](const absl::Status& status) { failures_.push_back(status); };
    callbacks.release_blocks = [this](const ReceiveAction::ReleaseBlocks&) {
      if (std::this_thread::get_id() == thread_.get_id()) {
        ++releases_;
      } else {
        ++foreign_releases_;
      }
    };
    callbacks.received = [](uint64_t) {};
    driver_.emplace(config_, *cache_, /*staging=*/nullptr, std::move(callbacks));
  }
  ~ReceiveDriverTest() override {
    if (thread_.joinable()) thread_.join();
  }

  // Returns when the push's thread is about to go on with granted blocks; it waits for GoOn.
  void Open() {
    thread_ = std::thread([this] { driver_->Run(); });
    driver_->PostFromStream(ReceiveEvent::ControlReceived{kStream, MakeOpen(config_)});
    asked_.get_future().wait();
  }
  void GoOn() { go_on_.set_value(); }
  void PostAllData() { PostData(0, source_.layout.layers, 0, 1); }
  // Posts the tokens of these layers from `first_token` on.
  void PostData(int layer, int layers, int first_token, uint64_t sequence_number) {
    const std::string bytes = EncodeData(
        MakeDataHeader(config_, source_, layer, layers, first_token, tokens_, sequence_number),
        source_);
    auto message = DecodeKvData({grpc::Slice(bytes)});
    ASSERT_TRUE(message.ok()) << message.status();
    driver_->PostFromStream(ReceiveInbox::Data{kStream, *std::move(message)});
  }
  void PostCommit() {
    driver_->PostFromStream(
        ReceiveEvent::ControlReceived{kStream, MakeCommit(config_, source_, 0)});
  }

  const int tokens_;
  const std::vector<int32_t> granted_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<KvCache> cache_;
  const ReceiveConfig config_;
  std::vector<uint8_t> source_memory_;
  const KvBlocks source_;
  std::promise<void> asked_;
  std::promise<void> go_on_;
  std::future<void> may_go_on_ = go_on_.get_future();
  // The push's thread sets these, and the test reads them once it has joined that thread.
  bool committed_ = false;
  std::vector<absl::Status> failures_;
  int releases_ = 0;                       // on the push's thread
  std::atomic<int> foreign_releases_ = 0;  // on another thread
  std::optional<ReceiveDriver> driver_;
  std::thread thread_;
};

TEST_F(ReceiveDriverTest, ReleasesOnItsOwnThreadWhenItIsCancelled) {
  Open();
  EXPECT_TRUE(driver_->Cancel(PushRefused::REASON_ABORTED));
  EXPECT_EQ(foreign_releases_, 0);
  GoOn();
  thread_.join();
  EXPECT_EQ(releases_, 1);
  EXPECT_EQ(failures_.size(), 1u);
}

TEST_F(ReceiveDriverTest, ReleasesNothingOnceItHasEndedWithItsCommit) {
  Open();
  GoOn();
  PostAllData();
  PostCommit();
  thread_.join();
  ASSERT_TRUE(committed_);
  EXPECT_FALSE(driver_->Cancel(PushRefused::REASON_ABORTED));
  EXPECT_EQ(releases_, 0);
  EXPECT_EQ(foreign_releases_, 0) << "the blocks are the sequence's now";
}

TEST_F(ReceiveDriverTest, MoreEventsThanItHoldsFailTheAttempt) {
  Open();
  PostAllData();
  for (int i = 0; i < 10000; ++i) driver_->PostFromStream(ReceiveEvent::StreamLost{kStream + 1});
  PostCommit();
  GoOn();
  thread_.join();
  EXPECT_FALSE(committed_);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0].code(), absl::StatusCode::kResourceExhausted) << failures_[0];
  EXPECT_EQ(releases_, 1);
}

TEST_F(ReceiveDriverTest, ACancellationIsHeardHoweverManyEventsWait) {
  Open();
  for (int i = 0; i < 10000; ++i) driver_->PostFromStream(ReceiveEvent::StreamLost{kStream + 1});
  EXPECT_TRUE(driver_->Cancel(PushRefused::REASON_ABORTED));
  EXPECT_EQ(foreign_releases_, 0) << "the push's thread may be writing into the blocks";
  GoOn();
  thread_.join();
  EXPECT_EQ(releases_, 1);
}

constexpr int kLongTokens = 200;  // layer 1 carries the tokens from 112 on

KvLayout LayoutWithWindow() {
  KvLayout layout = kLayout;
  layout.groups = KvLayerGroups({0, 16});
  return layout;
}

// Layer 1 has no blocks for the tokens that it does not carry.
std::vector<int32_t> TableWithWindow() {
  const KvLayout layout = LayoutWithWindow();
  std::vector<int32_t> table(static_cast<size_t>(layout.TableEntriesFor(kLongTokens)));
  std::iota(table.rbegin(), table.rend(), 0);
  for (int token = 0; token < 96; token += 32) table[layout.TableIndex(1, token)] = kNoBlock;
  return table;
}

class ReceiveDriverWithWindow : public ReceiveDriverTest {
 protected:
  ReceiveDriverWithWindow()
      : ReceiveDriverTest(LayoutWithWindow(), kLongTokens, TableWithWindow(), TableWithWindow()) {}
};

TEST_F(ReceiveDriverWithWindow, KeepsAPagesCrcWithTheBlockOfItsLayer) {
  Open();
  GoOn();
  PostData(0, 1, 0, 1);
  PostData(1, 1, 112, 2);
  PostCommit();
  thread_.join();
  ASSERT_TRUE(committed_);
  const KvLayout layout = LayoutWithWindow();
  for (const LayerTokens& carried : {LayerTokens{0, {0, 200}}, LayerTokens{1, {112, 200}}}) {
    for (const TokenRange page : PagesOf(carried.tokens)) {
      const int32_t block = granted_[layout.TableIndex(carried.layer, page.begin)];
      EXPECT_EQ(cache_->PageCrc(block, carried.layer, page.begin % 32 / kKvPageTokens),
                source_.PageCrc(carried.layer, page))
          << "layer " << carried.layer << ", token " << page.begin;
    }
  }
}

}  // namespace
}  // namespace baton
