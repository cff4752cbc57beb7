// Both workers under load from many threads, for whoever watches for races: attempts that are
// cancelled, stopped, paused and superseded at any moment, while others look at the workers.
#include <atomic>
#include <random>
#include <thread>

#include "gtest/gtest.h"

#include "common/certificates/credentials.h"
#include "common/rpc/status.h"
#include "common/worker/worker_service.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::SequenceSpec;

constexpr int kSpecs = 6;

SequenceSpec Spec(int number, uint64_t id, uint32_t attempt = 1) {
  std::mt19937 random(static_cast<uint32_t>(number));
  std::vector<int32_t> prompt(1 + random() % 150);
  for (int32_t& token : prompt) token = static_cast<int32_t>(random() % 200);
  SamplingParams sampling;
  sampling.temperature = number % 2 == 0 ? 0.f : 1.f;
  sampling.seed = static_cast<uint64_t>(number);
  sampling.max_tokens = 2 + static_cast<int>(random() % 30);
  sampling.ignore_eos = true;
  return MakeSpec(prompt, sampling, id, attempt);
}

// A worker that is watched, as the router does.
class WatchedWorker {
 public:
  explicit WatchedWorker(const TestWorker::Options& options)
      : worker_(options),
        watch_(
            {}, [this] { return WatchFromStats(ServerState::kReady, worker_.engine().Stats()); },
            Credentials::Loopback(), &worker_.engine().prefix_pages()) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&watch_);
    server_ = builder.BuildAndStart();
    watch_.SetAddress("127.0.0.1:" + std::to_string(port));
    stub_ = internal::v1::WorkerService::NewStub(
        grpc::CreateChannel(watch_.info().address(), grpc::InsecureChannelCredentials()));
  }
  ~WatchedWorker() {
    watch_.Close();
    server_->Shutdown(std::chrono::system_clock::now());
  }
  TestWorker& operator*() { return worker_; }
  TestWorker* operator->() { return &worker_; }

  void LookAround() {
    grpc::ClientContext context;
    auto reader = stub_->Watch(&context, {});
    internal::v1::WatchResponse response;
    EXPECT_TRUE(reader->Read(&response));
    watch_.StateChanged();
    EXPECT_TRUE(reader->Read(&response));
    EXPECT_FALSE(worker_.metrics().Scrape().empty());
    EXPECT_GE(worker_.decode_service().calls() + worker_.prefill_service().calls(), 0);
    context.TryCancel();
    reader->Finish();
  }

 private:
  TestWorker worker_;
  WorkerService watch_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<internal::v1::WorkerService::Stub> stub_;
};

enum class Manner {
  kHandsOff,
  kPrefillsLocally,
  kCancelsDecode,
  kCancelsPrefill,
  kStops,
  kPauses,
  kComesAgain
};

// One attempt at a request.
class Attempt {
 public:
  Attempt(TestWorker& prefill, TestWorker& decode, const SequenceSpec& spec, Manner manner)
      : manner_(manner),
        calls_(manner == Manner::kPrefillsLocally ? nullptr : &prefill, decode, spec) {}

  void CancelDecode() { calls_.CancelDecode(); }
  void CancelPrefill() { calls_.CancelPrefill(); }

  HandoffResult Run() {
    return calls_.Run({.on_decode = [this](const DecodeResponse& response) { Answer(response); },
                       .on_prefill_end =
                           [this](const grpc::Status& status) {
                             // Nothing else would end a decode call whose push never comes.
                             if (!status.ok()) CancelDecode();
                           }});
  }

 private:
  void Answer(const DecodeResponse& response) {
    tokens_ += response.tokens().tokens_size();
    if (response.tokens().tokens().empty()) return;
    DecodeRequest request;
    if (manner_ == Manner::kPauses) {
      for (const bool paused : {true, false}) {
        request.mutable_flow()->set_paused(paused);
        calls_.Send(request);
      }
    } else if (manner_ == Manner::kStops && tokens_ > 1) {
      request.mutable_stop()->set_choice(0);
      calls_.Send(request);
    }
  }

  const Manner manner_;
  HandoffCalls calls_;
  int tokens_ = 0;
};

// By device.
class WorkerThreads : public ::testing::TestWithParam<const char*> {
 protected:
  WorkerThreads() {
    options_.device = GetParam();
    options_.num_kv_blocks = 40;     // sequences wait, and are preempted
    options_.max_queued_tokens = 4;  // and paused
    options_.resume_timeout = absl::Milliseconds(20);
    TestWorker alone({});
    for (int number = 0; number < kSpecs; ++number) {
      expected_[number] =
          RunLocally(alone, Spec(number, static_cast<uint64_t>(number))).token_ids();
    }
  }

  // What came must be what comes first, and all of it where the call ended well.
  void ExpectTokens(int number, const HandoffResult& result, bool all) const {
    std::vector<uint32_t> expected = expected_[number];
    ASSERT_FALSE(expected.empty());
    if (!all) expected.resize(std::min(expected.size(), result.tokens.size()));
    EXPECT_EQ(result.token_ids(), expected);
  }

  void Ask(std::mt19937_64& random, TestWorker& prefill, TestWorker& decode, bool workers_end) {
    const int number = static_cast<int>(random() % kSpecs);
    const uint64_t id = next_id_.fetch_add(1);
    const auto manner = static_cast<Manner>(random() % 10 % 7);
    Attempt attempt(prefill, decode, Spec(number, id), manner);
    std::thread other;
    const absl::Duration delay = absl::Microseconds(random() % 20000);
    if (manner == Manner::kCancelsDecode || manner == Manner::kCancelsPrefill) {
      other = std::thread([&attempt, manner, delay] {
        absl::SleepFor(delay);
        manner == Manner::kCancelsDecode ? attempt.CancelDecode() : attempt.CancelPrefill();
      });
    } else if (manner == Manner::kComesAgain) {
      other = std::thread([&, number, id, delay, workers_end] {
        absl::SleepFor(delay);
        Attempt second(prefill, decode, Spec(number, id, 2), Manner::kHandsOff);
        const HandoffResult result = second.Run();
        const grpc::Status& status = result.decode_status;
        EXPECT_TRUE(status.ok() || workers_end) << status.error_message();
        ExpectTokens(number, result, status.ok());
      });
    }
    const HandoffResult result = attempt.Run();
    if (other.joinable()) other.join();
    const bool may_fail = workers_end || manner == Manner::kCancelsDecode ||
                          manner == Manner::kCancelsPrefill || manner == Manner::kComesAgain;
    const grpc::Status& status = result.decode_status;
    EXPECT_TRUE(status.ok() || may_fail) << status.error_message();
    ExpectTokens(number, result, status.ok() && manner != Manner::kStops);
  }

  TestWorker::Options options_;
  std::vector<uint32_t> expected_[kSpecs];
  std::atomic<uint64_t> next_id_ = 100;
};

INSTANTIATE_TEST_SUITE_P(Device, WorkerThreads, ::testing::Values("cpu", "late"),
                         [](const auto& device) { return std::string(device.param); });

TEST_P(WorkerThreads, TokensAreRightWhileAttemptsAreCancelledStoppedPausedAndSuperseded) {
  WatchedWorker prefill(options_);
  options_.block_size = 32;
  WatchedWorker decode(options_);
  std::atomic<int> clients_left = 6;
  std::vector<std::thread> clients;
  for (uint64_t i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      std::mt19937_64 random(i);
      for (int asked = 0; asked < 20; ++asked) {
        // Each can do the other's work; where they stage, they would wait for each other.
        const bool swapped = random() % 4 == 0 && prefill->staging() == nullptr;
        Ask(random, swapped ? *decode : *prefill, swapped ? *prefill : *decode, false);
      }
      --clients_left;
    });
  }
  while (clients_left > 0) {
    prefill.LookAround();
    decode.LookAround();
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(prefill->ComesToRest());
  EXPECT_TRUE(decode->ComesToRest());
}

TEST_P(WorkerThreads, WorkersEndUnderLoad) {
  for (int round = 0; round < 3; ++round) {
    WatchedWorker prefill(options_), decode(options_);
    std::atomic<bool> stop = false;
    std::vector<std::thread> clients;
    for (uint64_t i = 0; i < 4; ++i) {
      clients.emplace_back([&, i] {
        std::mt19937_64 random(i);
        while (!stop) Ask(random, *prefill, *decode, true);
      });
    }
    absl::SleepFor(absl::Milliseconds(50));
    decode->decode_service().Drain();
    prefill->prefill_service().Drain();
    decode->EndAll();
    prefill->EndAll();
    stop = true;
    for (std::thread& client : clients) client.join();
  }
}

}  // namespace
}  // namespace baton
