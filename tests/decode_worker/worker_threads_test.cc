// Both workers under load from many threads, for whoever watches for races: attempts that are
// cancelled, stopped, paused and superseded at any moment, while others look at the workers.
#include <atomic>
#include <random>
#include <thread>

#include "gtest/gtest.h"

#include "common/rpc/status.h"
#include "common/rpc/worker_service.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::OutputToken;
using internal::v1::PrefillResponse;
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
            &worker_.engine().prefix_pages()) {
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

struct Outcome {
  grpc::Status status;  // of the decode call
  std::vector<uint32_t> tokens;
};

// The router's part, of one attempt, with stubs that outlive the workers.
class Attempt {
 public:
  Attempt(TestWorker& prefill, TestWorker& decode, SequenceSpec spec)
      : prefill_(internal::v1::PrefillService::NewStub(prefill.channel())),
        decode_(internal::v1::DecodeService::NewStub(decode.channel())),
        prefill_request_(PrefillRequestFor(decode, spec)),
        spec_(std::move(spec)) {}

  void CancelDecode() { decode_context_.TryCancel(); }
  void CancelPrefill() { prefill_context_.TryCancel(); }

  Outcome Run(Manner manner) {
    auto call = decode_->Decode(&decode_context_);
    DecodeRequest start;
    *start.mutable_start()->mutable_sequence() = spec_;
    start.mutable_start()->set_prefill_locally(manner == Manner::kPrefillsLocally);
    call->Write(start);
    std::thread prefilling;
    Outcome outcome;
    for (DecodeResponse response; call->Read(&response);) {
      if (response.has_accepted() && manner != Manner::kPrefillsLocally) {
        prefilling = std::thread([this] { Prefill(); });
      }
      for (const OutputToken& token : response.tokens().tokens()) {
        outcome.tokens.push_back(token.token().token_id());
      }
      if (response.tokens().tokens().empty()) continue;
      DecodeRequest request;
      if (manner == Manner::kPauses) {
        for (const bool paused : {true, false}) {
          request.mutable_flow()->set_paused(paused);
          call->Write(request);
        }
      } else if (manner == Manner::kStops && outcome.tokens.size() > 1) {
        request.mutable_stop()->set_choice(0);
        call->Write(request);
      }
    }
    outcome.status = call->Finish();
    if (prefilling.joinable()) prefilling.join();
    return outcome;
  }

 private:
  void Prefill() {
    auto call = prefill_->Prefill(&prefill_context_, prefill_request_);
    for (PrefillResponse response; call->Read(&response);) continue;
    // Nothing else would end a decode call whose push never comes.
    if (!call->Finish().ok()) CancelDecode();
  }

  const std::unique_ptr<internal::v1::PrefillService::Stub> prefill_;
  const std::unique_ptr<internal::v1::DecodeService::Stub> decode_;
  const internal::v1::PrefillRequest prefill_request_;
  const SequenceSpec spec_;
  grpc::ClientContext prefill_context_, decode_context_;
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
      for (const OutputToken& token :
           RunLocally(alone, Spec(number, static_cast<uint64_t>(number))).tokens) {
        expected_[number].push_back(token.token().token_id());
      }
    }
  }

  // What came must be what comes first, and all of it where the call ended well.
  void ExpectTokens(int number, const Outcome& outcome, bool all) const {
    std::vector<uint32_t> expected = expected_[number];
    ASSERT_FALSE(expected.empty());
    if (!all) expected.resize(std::min(expected.size(), outcome.tokens.size()));
    EXPECT_EQ(outcome.tokens, expected);
  }

  void Ask(std::mt19937_64& random, TestWorker& prefill, TestWorker& decode, bool workers_end) {
    const int number = static_cast<int>(random() % kSpecs);
    const uint64_t id = next_id_.fetch_add(1);
    const auto manner = static_cast<Manner>(random() % 10 % 7);
    Attempt attempt(prefill, decode, Spec(number, id));
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
        Attempt second(prefill, decode, Spec(number, id, 2));
        const Outcome outcome = second.Run(Manner::kHandsOff);
        EXPECT_TRUE(outcome.status.ok() || workers_end) << outcome.status.error_message();
        ExpectTokens(number, outcome, outcome.status.ok());
      });
    }
    const Outcome outcome = attempt.Run(manner);
    if (other.joinable()) other.join();
    const bool may_fail = workers_end || manner == Manner::kCancelsDecode ||
                          manner == Manner::kCancelsPrefill || manner == Manner::kComesAgain;
    EXPECT_TRUE(outcome.status.ok() || may_fail) << outcome.status.error_message();
    ExpectTokens(number, outcome, outcome.status.ok() && manner != Manner::kStops);
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
