// The router as a whole under load from many threads, for whoever watches for races: clients that
// leave, run out of time or read slowly, workers that die and are replaced, people that look at it.
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "common/base/address.h"
#include "common/net/metrics_server.h"
#include "tests/router/router_fixture.h"
#include "tests/support/mock_sequence.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

class RouterThreads : public RouterFixture {
 protected:
  static constexpr int kWorkers = 3;  // workers of each role

  RouterThreads() {
    options_.workers.workers_file = testing::TempDir() + "/baton_router_threads_workers";
    options_.poll_interval = absl::Milliseconds(5);
    options_.admission.requests = 12;  // fewer than there are at times
    options_.runner.dispatch.no_worker_grace = absl::Seconds(20);
    for (int i = 0; i < 2 * kWorkers; ++i) {
      fleet_.push_back(&AddWorker(i < kWorkers ? WORKER_ROLE_PREFILL : WORKER_ROLE_DECODE));
      fleet_.back()->Behave(SomeBehaviour());
    }
    WriteWorkersFile();
  }
  void StartFleet() {
    StartOnly();
    Eventually([&] { return router_->AllWorkersReady(); });
  }

  MockBehaviour SomeBehaviour() {
    return {.before_accept = absl::Microseconds(random_() % 2000),
            .before_first_token = absl::Microseconds(random_() % 2000),
            .before_commit = absl::Microseconds(random_() % 1000),
            .between_tokens = absl::Microseconds(random_() % 1000)};
  }
  void WriteWorkersFile() {
    const std::string& path = options_.workers.workers_file;
    {
      std::ofstream file(path + ".new");
      for (const MockWorker* worker : fleet_) {
        file << (worker->role() == WORKER_ROLE_PREFILL ? "prefill " : "decode ")
             << worker->address() << "\n";
      }
    }
    ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  }
  // One dies and another comes, somewhere else.
  void ReplaceAWorker() {
    MockWorker*& worker = fleet_[random_() % fleet_.size()];
    worker->Kill();
    worker = &AddWorker(worker->role());
    worker->Behave(SomeBehaviour());
    WriteWorkersFile();
    fleet_[random_() % fleet_.size()]->Behave(SomeBehaviour());
  }

  static v1::GenerateRequest SomeRequest(std::mt19937_64& random) {
    std::string prompt(1 + random() % 60, 'a');
    for (char& letter : prompt) letter = static_cast<char>('a' + random() % 26);
    v1::GenerateRequest request =
        Request(prompt, static_cast<uint32_t>(1 + random() % 80), random());
    request.set_stream(random() % 4 != 0);
    request.set_priority(static_cast<int32_t>(random() % 3));
    request.set_user(std::string(1, static_cast<char>('a' + random() % 3)));
    if (random() % 4 == 0) request.mutable_sampling_params()->set_n(3);
    return request;
  }
  // What came must be what comes first, and all of it where the request ended well.
  static void ExpectTokens(const v1::GenerateRequest& request,
                           std::map<uint32_t, std::vector<uint32_t>>& got, bool all) {
    std::vector<uint32_t> prompt;
    for (char c : request.prompt()) prompt.push_back(static_cast<uint32_t>(c - 'a'));
    const v1::SamplingParams& sampling = request.sampling_params();
    for (uint32_t choice = 0; choice < std::max(sampling.n(), 1u); ++choice) {
      MockSequence sequence(prompt, sampling, {.vocab_size = kVocab, .eos_id = kEnd}, {}, choice);
      std::vector<uint32_t> expected;
      while (!sequence.ended()) expected.push_back(sequence.Next().token().token_id());
      if (!all) expected.resize(std::min(expected.size(), got[choice].size()));
      EXPECT_EQ(got[choice], expected);
    }
  }

  enum class Manner { kPatient, kSlow, kLeaves, kIsTornAway, kHasLittleTime };
  // One request in that manner; how it ended.
  absl::Status Ask(std::mt19937_64& random, Manner manner) {
    const v1::GenerateRequest request = SomeRequest(random);
    grpc::ClientContext context;
    if (manner == Manner::kHasLittleTime) {
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::milliseconds(3 + random() % 40));
    }
    auto reader = stub_->Generate(&context, request);
    std::thread tears;
    if (manner == Manner::kIsTornAway) {
      tears = std::thread([&context, delay = absl::Microseconds(random() % 20000)] {
        absl::SleepFor(delay);
        context.TryCancel();
      });
    }
    std::map<uint32_t, std::vector<uint32_t>> got;
    uint64_t leaves_after = manner == Manner::kLeaves ? random() % 30 : UINT64_MAX;
    for (v1::GenerateResponse response; reader->Read(&response);) {
      if (manner == Manner::kSlow) absl::SleepFor(absl::Milliseconds(1));
      if (leaves_after-- == 0) context.TryCancel();
      const v1::GenerateChunk& chunk = response.chunk();
      const v1::GenerateComplete& complete = response.complete();
      auto& ids = got[response.has_chunk() ? chunk.index() : complete.index()];
      ids.insert(ids.end(), chunk.token_ids().begin(), chunk.token_ids().end());
      ids.insert(ids.end(), complete.token_ids().begin(), complete.token_ids().end());
    }
    const absl::Status status = FromGrpcStatus(reader->Finish());
    if (tears.joinable()) tears.join();
    ExpectTokens(request, got, status.ok());
    return status;
  }

  // As long as somebody else is at work.
  void LookAround(const MetricsServer& metrics, const std::atomic<bool>& stop) {
    const auto address = ParseHostPort(metrics.address());
    httplib::Client browser(address->host, address->port);
    while (!stop) {
      const httplib::Result page = browser.Get("/metrics");
      EXPECT_TRUE(page && page->status == 200 && !page->body.empty());
      EXPECT_LE(router_->fleet().ready_decode, 2u * kWorkers);
      EXPECT_LE(router_->waiting_requests(), options_.admission.requests);
      router_->Ready();
      router_->RunningRequests();
      v1::TokenizeRequest text;
      text.set_text("abc");
      v1::TokenizeResponse tokens;
      grpc::ClientContext contexts[2];
      const grpc::StatusCode tokenized = stub_->Tokenize(&contexts[0], text, &tokens).error_code();
      EXPECT_TRUE(tokenized == grpc::StatusCode::OK ||
                  tokenized == grpc::StatusCode::RESOURCE_EXHAUSTED)  // others fill the queue
          << tokenized;
      v1::ListModelsResponse models;
      EXPECT_TRUE(stub_->ListModels(&contexts[1], {}, &models).ok());
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  std::mt19937_64 random_{1};
  std::vector<MockWorker*> fleet_;  // workers that are alive
};

TEST_F(RouterThreads, TokensAreRightWhileClientsLeaveAndWorkersDie) {
  StartFleet();
  std::atomic<int> clients_left = 16;
  std::atomic<int> well = 0;
  std::vector<std::thread> clients;
  for (uint64_t i = 0; i < 16; ++i) {
    clients.emplace_back([&, i] {
      std::mt19937_64 random(100 + i);
      for (int asked = 0; asked < 25; ++asked) {
        const auto manner = static_cast<Manner>(random() % 8);  // others are patient
        const absl::Status status = Ask(random, manner);
        well += status.ok();
        switch (status.code()) {
          case absl::StatusCode::kOk:
          case absl::StatusCode::kResourceExhausted:
            break;
          case absl::StatusCode::kCancelled:
            EXPECT_TRUE(manner == Manner::kLeaves || manner == Manner::kIsTornAway) << status;
            break;
          case absl::StatusCode::kDeadlineExceeded:
            EXPECT_TRUE(manner == Manner::kHasLittleTime) << status;
            break;
          default:
            ADD_FAILURE() << status;
        }
      }
      --clients_left;
    });
  }
  std::atomic<bool> stop = false;
  const auto metrics = MetricsServer::Start("127.0.0.1:0", [this] { return metrics_.Scrape(); });
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  std::vector<std::thread> visitors;
  for (int i = 0; i < 2; ++i) visitors.emplace_back([&] { LookAround(**metrics, stop); });
  while (clients_left > 0) {
    absl::SleepFor(absl::Milliseconds(60));
    ReplaceAWorker();
  }
  for (std::thread& client : clients) client.join();
  stop = true;
  for (std::thread& visitor : visitors) visitor.join();
  EXPECT_GT(well, 40);
  ExpectNothingLeft();
}

TEST_F(RouterThreads, EndsUnderLoad) {
  for (const bool drains : {true, false, true, false}) {
    StartFleet();
    std::atomic<bool> stop = false;
    std::vector<std::thread> clients;
    for (uint64_t i = 0; i < 8; ++i) {
      clients.emplace_back([&, i] {
        std::mt19937_64 random(i);
        while (!stop) Ask(random, Manner::kPatient).IgnoreError();
      });
    }
    absl::SleepFor(absl::Milliseconds(100));
    if (drains) {
      router_->EndAll();
      Eventually([&] { return router_->RunningRequests() == 0; });
    }
    Stop();
    stop = true;
    for (std::thread& client : clients) client.join();
    Eventually([&] {
      for (const MockWorker* worker : fleet_) {
        if (worker->active_calls() != 0) return false;
      }
      return true;
    });
  }
}

}  // namespace
}  // namespace baton
