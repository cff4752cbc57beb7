// A hand-off between real workers whose connection breaks while slices of the cache wait in it.
#include <random>

#include "gtest/gtest.h"

#include "common/base/clock.h"
#include "common/rpc/status.h"
#include "tests/decode_worker/worker_pair.h"
#include "tests/support/fault_proxy.h"

namespace baton {
namespace {

using internal::v1::SequenceSpec;

class BrokenConnection : public ::testing::Test {
 protected:
  static TestWorker::Options BigMessages() {
    TestWorker::Options options;
    options.max_num_batched_tokens = 512;  // one message of all
    options.sender_limits = {.abort_timeout = absl::Milliseconds(100),
                             .close_timeout = absl::Milliseconds(100)};
    options.receiver_limits = {.receive_timeout = absl::Milliseconds(500)};
    return options;
  }
  BrokenConnection() : prefill_(BigMessages()), decode_(BigMessages()) {
    const std::string address = decode_.address();
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    auto proxy = FaultProxy::Start(static_cast<uint16_t>(port), 1);
    EXPECT_TRUE(proxy.ok()) << proxy.status();
    proxy_ = *std::move(proxy);
  }

  SequenceSpec Spec(uint64_t id) {
    std::mt19937 random(static_cast<uint32_t>(id));
    std::vector<int32_t> ids;
    for (int i = 0; i < 500; ++i) ids.push_back(static_cast<int32_t>(random() % 200));
    SamplingParams sampling;
    sampling.temperature = 0;
    sampling.max_tokens = 2;
    sampling.ignore_eos = true;
    return MakeSpec(ids, sampling, id);
  }
  HandoffResult RunThroughProxy(const SequenceSpec& spec) {
    return RunHandoff(prefill_, decode_, spec, "127.0.0.1:" + std::to_string(proxy_->port()));
  }
  // More than what gRPC gives to the connection at once.
  uint64_t BytesOfAPush() { return engine_layout().bytes_per_token() * uint64_t{500}; }
  void WaitForBytes(uint64_t bytes_up) {
    const absl::Time deadline = SteadyNow() + absl::Seconds(10);
    while (proxy_->stats().bytes_up < bytes_up && SteadyNow() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  const KvLayout& engine_layout() { return prefill_.engine().cache().layout(); }

  TestWorker prefill_, decode_;
  std::unique_ptr<FaultProxy> proxy_;
};

TEST_F(BrokenConnection, EveryBlockComesBackFromAPushThatIsCutInTheMiddle) {
  ASSERT_GT(BytesOfAPush(), uint64_t{150} << 10);
  for (const bool reset : {false, true}) {
    const SequenceSpec spec = Spec(reset ? 2 : 1);
    proxy_->SetFaults(FaultProxy::Direction::kUp, {.bytes_per_second = 400e3});
    const uint64_t before = proxy_->stats().bytes_up;
    std::thread cutter([&] {
      WaitForBytes(before + 20'000);
      proxy_->Cut(reset);
    });
    const HandoffResult result = RunThroughProxy(spec);
    cutter.join();
    for (const grpc::Status& status : {result.prefill_status, result.decode_status}) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
      EXPECT_EQ(ErrorReason(FromGrpcStatus(status)), kReasonKvTransferFailed);
      EXPECT_EQ(GetErrorInfo(FromGrpcStatus(status))->stage, kStageTransfer);
    }
    EXPECT_TRUE(prefill_.ComesToRest());
    EXPECT_TRUE(decode_.ComesToRest());
  }
  proxy_->Heal();
  EXPECT_TRUE(RunThroughProxy(Spec(3)).decode_status.ok());
}

// The slices wait for the peer's flow control, and the peer is not even told of the cancellation.
TEST_F(BrokenConnection, EveryBlockComesBackFromAPushThatIsCancelledWhileItsConnectionIsHalfOpen) {
  proxy_->SetFaults(FaultProxy::Direction::kUp, {.bytes_per_second = 400e3});
  std::thread breaker([&] {
    WaitForBytes(20'000);
    for (const auto direction : {FaultProxy::Direction::kUp, FaultProxy::Direction::kDown}) {
      proxy_->SetFaults(direction, {.flow = LinkFaults::Flow::kSwallow});
    }
    prefill_.prefill_service().EndAll(absl::CancelledError("the router has left"));
  });
  const HandoffResult result = RunThroughProxy(Spec(1));
  breaker.join();
  EXPECT_EQ(result.prefill_status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(result.decode_status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(prefill_.ComesToRest());
  EXPECT_TRUE(decode_.ComesToRest());
}

}  // namespace
}  // namespace baton
