// The thread of a push: what comes on it, and what becomes of events that come too late or too
// many.
#include "decode_worker/receive_driver.h"

#include <atomic>
#include <future>
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
  ReceiveDriverTest()
      : backend_(*MakeBackend({.device = "cpu", .threads = 1})),
        cache_(*KvCache::Create(*backend_, kLayout, 3)),
        config_(MakeReceiverConfig(kLayout, kTokens)),
        source_memory_(kLayout.block_bytes() * 2) {
    for (size_t i = 0; i < source_memory_.size(); ++i) {
      source_memory_[i] = static_cast<uint8_t>(i * 37 >> 2);
    }
    ReceiveDriver::Callbacks callbacks;
    callbacks.take_blocks = [this](const ReceiveAction::TakeBlocks&) {
      driver_->Grant({2, 1}, /*start_token=*/0);
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
  void PostAllData() {
    const std::string bytes =
        EncodeData(MakeDataHeader(config_, source_, 0, kLayout.layers, 0, kTokens, 1), source_);
    auto message = DecodeKvData({grpc::Slice(bytes)});
    ASSERT_TRUE(message.ok()) << message.status();
    driver_->PostFromStream(ReceiveInbox::Data{kStream, *std::move(message)});
  }
  void PostCommit() {
    driver_->PostFromStream(
        ReceiveEvent::ControlReceived{kStream, MakeCommit(config_, source_, 0)});
  }

  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<KvCache> cache_;
  const ReceiveConfig config_;
  std::vector<uint8_t> source_memory_;
  const KvBlocks source_{source_memory_.data(), kLayout, {1, 0}};
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

}  // namespace
}  // namespace baton
