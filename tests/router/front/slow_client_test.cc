// Clients that do not read, do not finish asking or have no time, at a router over real sockets.
#include <gtest/gtest.h>
#include <malloc.h>

#include <thread>

#include "tests/router/router_fixture.h"
#include "tests/support/raw_client.h"

namespace baton {
namespace {

class SlowClient : public RouterFixture {
 protected:
  SlowClient() {
    for (int i = 0; i < 4; ++i) AddDecode();
    options_.runner.dispatch.placement.disaggregation = Disaggregation::kNever;
    options_.admission.max_queue_time = absl::InfiniteDuration();
    options_.admission.requests = 4096;
    options_.runner.machine.stall_timeout = absl::Hours(1);
  }
  int port() const { return std::stoi(address_.substr(address_.find(':') + 1)); }

  // `count` streams on a few connections, with requests for as many tokens as there are.
  void OpenStreams(size_t count) {
    const std::string request = Request("abc", 90000).SerializeAsString();
    constexpr size_t kStreams = 100;  // streams of one connection
    for (size_t i = 0; i < count; ++i) {
      if (i % kStreams == 0) clients_.push_back(std::make_unique<RawClient>(port()));
      clients_.back()->SendMessage(clients_.back()->Open(), request);
    }
  }
  size_t Active() const {
    size_t active = 0;
    for (const auto& worker : workers_) active += static_cast<size_t>(worker->active_calls());
    return active;
  }
  size_t Ended() {
    size_t ended = 0;
    for (const auto& client : clients_) {
      client->Read(0);
      ended += client->ended().size();
    }
    return ended;
  }
  static size_t InUse() { return mallinfo2().uordblks; }

  std::vector<std::unique_ptr<RawClient>> clients_;
};

TEST_F(SlowClient, AThousandThatDoNotReadHoldLittleAndOthersDoNotNotice) {
#ifdef __SANITIZE_ADDRESS__
  constexpr size_t kStalled = 250;  // and memory in use is not known
#else
  constexpr size_t kStalled = 1000;
#endif
  Start();
  EXPECT_TRUE(Generate(Request("warm", 500)).status.ok());
  // What calls cost, here and at the workers, with hardly a token.
  for (const auto& worker : workers_) worker->Behave({.between_tokens = absl::Hours(1)});
  const size_t nothing = InUse();
  OpenStreams(kStalled / 5);
  Eventually([&] { return router_->waiting_requests() == 0 && Active() == kStalled / 5; });
  absl::SleepFor(absl::Milliseconds(50));
  const size_t call = (InUse() - nothing) / (kStalled / 5);
  clients_.clear();
  ExpectNothingLeft();

  for (const auto& worker : workers_) worker->Behave({});
  const size_t before = InUse();
  OpenStreams(kStalled);
  Eventually([&] { return Metric("baton_router_streams_behind") == kStalled; });
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&, i] {
      const v1::GenerateRequest request = Request("reads", 400, static_cast<uint64_t>(i));
      const Answer answer = Generate(request);
      EXPECT_TRUE(answer.status.ok()) << answer.status;
      EXPECT_EQ(answer.ids, Expected(request));
    });
  }
  for (std::thread& reader : readers) reader.join();
  const size_t stalled = (InUse() - before) / kStalled;
  RecordProperty("bytes_of_a_call", static_cast<int>(call));
  RecordProperty("bytes_of_a_stalled_call", static_cast<int>(stalled));
  EXPECT_LE(stalled, call + (size_t{64} << 10));
  clients_.clear();
  ExpectNothingLeft();
}

TEST_F(SlowClient, WhoDoesNotReadForTooLongIsEndedAndToldSo) {
  constexpr size_t kStalled = 200;
  options_.runner.machine.stall_timeout = absl::Milliseconds(500);
  Start();
  OpenStreams(kStalled);
  Eventually([&] { return Metric("baton_requests_total", "RESOURCE_EXHAUSTED") == kStalled; });
  // Half of them wake up.
  for (size_t i = 0; i < clients_.size(); i += 2) {
    for (uint32_t stream = 1; stream < 200; stream += 2) clients_[i]->Grant(stream, 1 << 20);
  }
  Eventually([&] { return Ended() == kStalled; });
  ExpectNothingLeft();
}

TEST_F(SlowClient, WhatAWorkerSendsThoughItWasToldToPauseIsNotRead) {
  for (const auto& worker : workers_) worker->Behave({.never_pauses = true});
  Start();
  OpenStreams(10);
  Eventually([&] { return Metric("baton_router_streams_behind") == 10; });
  absl::SleepFor(absl::Milliseconds(300));  // in which it would take thousands
  clients_.clear();
  ExpectNothingLeft();
  EXPECT_LE(Metric("baton_generation_tokens_total"), 10 * 1000) << "taken until they were gone";
}

TEST_F(SlowClient, WhoHasNotAskedYetHoldsNoPlace) {
  options_.admission.requests = 1;
  Start();
  RawClient client(port());
  const std::string request = Request("abc", 10).SerializeAsString();
  for (int i = 0; i < 50; ++i) client.Open();
  for (int i = 0; i < 50; ++i) client.SendMessage(client.Open(), request, 3);
  for (int i = 0; i < 50; ++i) client.SendMessage(client.Open(), request, request.size());
  client.Read(100);
  EXPECT_TRUE(Generate(Request("abc", 10)).status.ok());
  EXPECT_EQ(router_->RunningRequests(), 0u);
  EXPECT_EQ(router_->waiting_requests(), 0u);
}

TEST_F(SlowClient, WhoHasNoTimeLeftReachesNoWorker) {
  Start();
  RawClient client(port());
  constexpr size_t kCalls = 20;
  for (size_t i = 0; i < kCalls; ++i) {
    client.SendMessage(client.Open("1n"), Request("abc", 10).SerializeAsString());
  }
  Eventually([&] {
    client.Read(1);
    return client.ended().size() == kCalls;
  });
  ExpectNothingLeft();
  for (const auto& worker : workers_) EXPECT_EQ(worker->total_calls(), 0);
}

}  // namespace
}  // namespace baton
