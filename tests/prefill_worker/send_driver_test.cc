// Pushes over real sockets, to receivers that behave well or badly.
#include "prefill_worker/send_driver.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "common/handoff/carried_tokens.h"
#include "prefill_worker/channel_cache.h"
#include "tests/prefill_worker/fake_decode_worker.h"

namespace baton {
namespace {

constexpr int kTokens = 500;    // 2 MB of K and V
constexpr int kTooMany = 6000;  // more than gRPC takes for a receiver that stalls
const KvLayout kLayout = {.layers = 4, .kv_heads = 2, .head_dim = 128, .block_size = 32};

ChannelCache::Channels ChannelsTo(const std::string& address, int connections) {
  ChannelCache cache({.credentials = Credentials::Loopback(), .connections = connections});
  auto channels = cache.Get(address);
  EXPECT_TRUE(channels.ok()) << channels.status();
  return *channels;
}

// One prompt's worth of blocks and the push of it in messages of 128 KiB.
class Pusher {
 public:
  Pusher(const std::string& address, int connections, int tokens = kTokens,
         size_t max_prefill_messages = SendInbox::Bounds().prefill_messages,
         KvLayout layout = kLayout)
      : layout_(std::move(layout)), tokens_(tokens) {
    const int blocks = layout_.TableEntriesFor(tokens);
    block_table_.resize(static_cast<size_t>(blocks));
    std::iota(block_table_.begin(), block_table_.end(), 0);
    std::shuffle(block_table_.begin(), block_table_.end(), std::mt19937(3));
    memory_.resize(layout_.block_bytes() * static_cast<size_t>(blocks));
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<uint8_t>(i * 167 >> 5);

    SendDriver::Options options;
    options.config.open.mutable_key()->set_attempt(1);
    options.config.open.set_wire_dtype("f16");
    options.config.open.set_token_count(static_cast<uint32_t>(tokens));
    options.config.layout = layout_;
    options.config.token_ids.resize(static_cast<size_t>(tokens));
    options.config.limits.max_payload_bytes = size_t{128} << 10;
    options.config.limits.abort_timeout = absl::Milliseconds(20);
    options.config.limits.close_timeout = absl::Milliseconds(20);
    options.cache_base = memory_.data();
    options.block_generation = [this](int32_t) { return generation_.load(); };
    options.max_prefill_messages = max_prefill_messages;
    options.channels = ChannelsTo(address, connections);
    channel_ = options.channels.front();
    const std::shared_ptr<void> held(
        nullptr, [this](void*) { channels_outlived_callbacks_.set_value(!channel_.expired()); });
    options.callbacks = {.finished =
                             [this](const absl::Status& status, const SendReport& report) {
                               report_ = report;
                               finished_.set_value(status);
                             },
                         .release_blocks = [this] { released_.set_value(); },
                         .drop_channel = [held] {}};
    push_.emplace(std::move(options));
  }
  ~Pusher() {
    push_->Post(SendEvent::Abort{});
    thread_.join();
  }

  void Start() {
    thread_ = std::thread([this] { push_->Run(); });
  }
  void Announce() {
    for (int first = 0; first < tokens_; first += 128) {
      const int end = std::min(first + 128, tokens_);
      const std::vector<int32_t> table = TableAt(first, end);
      for (int layer = 0; layer < layout_.layers; ++layer) {
        const int begin = std::max(first, FirstHandedOff(layout_, layer, tokens_));
        if (begin >= end) continue;
        const auto pages = static_cast<size_t>(KvPages(end - begin));
        push_->PostLayer({{layer, {begin, end}}, std::vector<uint32_t>(pages, 1)}, table);
      }
      push_->Post(SendEvent::ChunkReady{end});
    }
    push_->Post(SendEvent::FirstToken{});
  }
  // The table while those tokens are computed: a layer with a window has no blocks yet for those
  // behind them, nor any more for those that the hand-off does not carry.
  std::vector<int32_t> TableAt(int first, int end) const {
    std::vector<int32_t> table = block_table_;
    for (int layer = 0; layer < layout_.layers; ++layer) {
      if (layout_.groups.window(layout_.groups.GroupOf(layer)) == 0) continue;
      const int held = std::min(first, FirstHandedOff(layout_, layer, tokens_));
      for (int token = 0; token < tokens_; token += layout_.block_size) {
        if (token + layout_.block_size <= held || token >= end) {
          table[layout_.TableIndex(layer, token)] = kNoBlock;
        }
      }
    }
    return table;
  }
  void Abort() { push_->Post(SendEvent::Abort{internal::v1::PushAbort::REASON_CANCELLED}); }
  absl::Status Finished() { return finished_.get_future().get(); }
  bool ReleasedWithin(absl::Duration timeout) {
    return all_released_.wait_for(absl::ToChronoMilliseconds(timeout)) == std::future_status::ready;
  }
  const SendReport& report() const { return report_; }  // after Finished
  bool ChannelsOutlivedCallbacks() { return channels_outlived_callbacks_.get_future().get(); }
  void GiveBlocksAway() { ++generation_; }

  // Every row once, with its bytes.
  void ExpectAllOf(const std::vector<FakeDecodeWorker::Received>& received) const {
    const KvBlocks blocks{const_cast<uint8_t*>(memory_.data()), layout_, block_table_};
    std::set<std::pair<uint32_t, uint32_t>> rows;
    for (const auto& message : received) {
      std::string expected;
      const auto& header = message.header;
      const auto append = [&expected](const uint8_t* bytes, size_t size) {
        expected.append(reinterpret_cast<const char*>(bytes), size);
      };
      const int first = static_cast<int>(header.first_token());
      const int end = first + static_cast<int>(header.token_count());
      for (uint32_t l = header.first_layer(); l < header.first_layer() + header.layer_count();
           ++l) {
        blocks.ForEachByteRange(static_cast<int>(l), KvLayout::kKeys, {first, end}, append);
        blocks.ForEachByteRange(static_cast<int>(l), KvLayout::kValues, {first, end}, append);
        for (int token = first; token < end; ++token) {
          EXPECT_TRUE(rows.insert({l, static_cast<uint32_t>(token)}).second) << "twice";
        }
      }
      EXPECT_EQ(message.payload, expected);
    }
    EXPECT_EQ(rows.size(), CarriedTokens(layout_, tokens_).carried());
  }

 private:
  const KvLayout layout_;
  const int tokens_;
  std::vector<uint8_t> memory_;
  std::vector<int32_t> block_table_;
  std::atomic<uint32_t> generation_ = 1;
  std::promise<absl::Status> finished_;
  std::promise<void> released_;
  std::weak_ptr<grpc::Channel> channel_;            // one of the push's
  std::promise<bool> channels_outlived_callbacks_;  // set when the callbacks are destroyed
  std::future<void> all_released_ = released_.get_future();
  SendReport report_;
  std::optional<SendDriver> push_;
  std::thread thread_;
};

TEST(SendDriver, EachStreamHasAConnectionOfItsOwnAndCarriesItsShare) {
  FakeDecodeWorker decode({});
  Pusher pusher(decode.address(), 4);
  pusher.Start();
  pusher.Announce();
  EXPECT_TRUE(pusher.Finished().ok());
  EXPECT_TRUE(decode.committed());
  EXPECT_EQ(decode.streams(), 4);
  std::map<std::string, int> messages;
  for (const auto& received : decode.received()) ++messages[received.peer];
  EXPECT_EQ(messages.size(), 4u);
  pusher.ExpectAllOf(decode.received());
  EXPECT_EQ(pusher.report().bytes_resent, 0u);
  EXPECT_TRUE(pusher.ReleasedWithin(absl::Seconds(5)));
}

TEST(SendDriver, EachLayerIsSentFromTheBlocksThatItHadWhenItWasComputed) {
  KvLayout layout = kLayout;
  layout.groups = KvLayerGroups({40, 0, 40, 100});
  FakeDecodeWorker decode({});
  Pusher pusher(decode.address(), 2, kTokens, SendInbox::Bounds().prefill_messages, layout);
  pusher.Start();
  pusher.Announce();
  EXPECT_TRUE(pusher.Finished().ok());
  EXPECT_TRUE(decode.committed());
  pusher.ExpectAllOf(decode.received());
  EXPECT_TRUE(pusher.ReleasedWithin(absl::Seconds(5)));
}

TEST(SendDriver, JoinedStreamsThatBreakLoseNothing) {
  FakeDecodeWorker decode({.lose_joined = true});
  Pusher pusher(decode.address(), 4);
  pusher.Start();
  pusher.Announce();
  EXPECT_TRUE(pusher.Finished().ok());
  EXPECT_EQ(decode.streams(), 4);
  pusher.ExpectAllOf(decode.received());
  EXPECT_GT(pusher.report().bytes_resent, 0u);
  EXPECT_TRUE(pusher.ReleasedWithin(absl::Seconds(5)));
}

TEST(SendDriver, RefusedJoinsMeanFewerStreams) {
  FakeDecodeWorker decode({.refuse_joins = true});
  Pusher pusher(decode.address(), 3);
  pusher.Start();
  pusher.Announce();
  EXPECT_TRUE(pusher.Finished().ok());
  pusher.ExpectAllOf(decode.received());
  EXPECT_TRUE(pusher.ReleasedWithin(absl::Seconds(5)));
}

// A thread that waits for the push may end the process as soon as the callbacks are destroyed.
TEST(SendDriver, ItsChannelsAreGoneBeforeItsCallbacks) {
  FakeDecodeWorker decode({});
  Pusher pusher(decode.address(), 2);
  pusher.Start();
  pusher.Announce();
  EXPECT_TRUE(pusher.Finished().ok());
  EXPECT_FALSE(pusher.ChannelsOutlivedCallbacks());
}

TEST(SendDriver, AReceiverThatReadsNothingDelaysNoOtherPushAndItsSlicesComeBack) {
  FakeDecodeWorker stalled({.stall = true});
  FakeDecodeWorker good({});
  Pusher slow(stalled.address(), 2, kTooMany);
  slow.Start();
  slow.Announce();
  Pusher quick(good.address(), 2);
  quick.Start();
  quick.Announce();
  EXPECT_TRUE(quick.Finished().ok());
  quick.ExpectAllOf(good.received());
  while (!stalled.stalled()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(slow.ReleasedWithin(absl::ZeroDuration())) << "its slices live";
  slow.Abort();
  EXPECT_EQ(slow.Finished().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(slow.ReleasedWithin(absl::Seconds(3)));
}

TEST(SendDriver, APrefillThatIsTooFarAheadFailsThePushAndSaysWhy) {
  FakeDecodeWorker decode({});
  Pusher pusher(decode.address(), 2, kTokens, /*max_prefill_messages=*/6);
  pusher.Announce();
  pusher.Start();
  const absl::Status status = pusher.Finished();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("fell behind"), std::string::npos) << status;
  EXPECT_FALSE(decode.committed());
  EXPECT_TRUE(pusher.ReleasedWithin(absl::Seconds(3)));
}

TEST(SendDriver, ABlockThatIsAnothersBeforeItIsEnqueuedIsNotSent) {
  FakeDecodeWorker decode({});
  Pusher pusher(decode.address(), 2);
  pusher.Announce();
  pusher.GiveBlocksAway();
  pusher.Start();
  EXPECT_EQ(pusher.Finished().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(decode.received().empty());
  EXPECT_FALSE(decode.committed());
  EXPECT_TRUE(pusher.ReleasedWithin(absl::Seconds(3)));
}

TEST(SendDriver, ABlockThatIsAnothersUnderLiveSlicesFailsThePush) {
  FakeDecodeWorker stalled({.stall = true});
  Pusher pusher(stalled.address(), 1, kTooMany);
  pusher.Start();
  pusher.Announce();
  while (!stalled.stalled()) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(absl::Milliseconds(5));  // what is not on its way by then is found at its enqueue
  pusher.GiveBlocksAway();
  pusher.Abort();
  EXPECT_EQ(pusher.Finished().code(), absl::StatusCode::kInternal);
  EXPECT_GT(pusher.report().stale_messages, 0u);
  EXPECT_TRUE(pusher.ReleasedWithin(absl::Seconds(3)));
}

}  // namespace
}  // namespace baton
