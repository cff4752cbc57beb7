#include "router/runner/request_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "router/calls/thread_loop.h"
#include "tests/router/fleet/ready_worker.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::WatchResponse;

// What a test sees of a stream, and plays the worker with.
template <typename Response>
struct Played {
  StreamEvents* events = nullptr;
  Response* reading = nullptr;
  bool cancelled = false;
  std::vector<DecodeRequest> sent;

  void Answer(const Response& response) {
    *std::exchange(reading, nullptr) = response;
    events->OnReadDone(true);
  }
  void End(const absl::Status& status) {
    events->OnReadDone(false);
    events->OnDone(status);
  }
};

template <typename Interface, typename Response>
class PlayedStream : public Interface {
 public:
  PlayedStream(Played<Response>& played, StreamEvents& events) : played_(played) {
    played_ = {.events = &events, .sent = {}};
  }
  void Start() override {}
  void StartRead(Response* response) override { played_.reading = response; }
  void NoMoreReads() override {}
  void Cancel() override { played_.cancelled = true; }
  std::string PeerId() const override { return ""; }
  std::string PeerAddress() const override { return ""; }

 protected:
  Played<Response>& played_;
};

class PlayedDecode final : public PlayedStream<DecodeStream, DecodeResponse> {
 public:
  using PlayedStream::PlayedStream;
  void StartWrite(const DecodeRequest* message) override { played_.sent.push_back(*message); }
  void StartWritesDone() override {}
};

class PlayedRpcs final : public WorkerRpcs {
 public:
  PlayedRpcs(Played<PrefillResponse>& prefill, Played<DecodeResponse>& decode)
      : prefill_(prefill), decode_(decode) {}
  std::unique_ptr<ReadStream<WatchResponse>> Watch(StreamEvents&) override { return nullptr; }
  std::unique_ptr<ReadStream<PrefillResponse>> Prefill(const PrefillRequest&, const TraceContext*,
                                                       StreamEvents& events) override {
    return std::make_unique<PlayedStream<ReadStream<PrefillResponse>, PrefillResponse>>(prefill_,
                                                                                        events);
  }
  std::unique_ptr<DecodeStream> Decode(const TraceContext*, StreamEvents& events) override {
    return std::make_unique<PlayedDecode>(decode_, events);
  }

 private:
  Played<PrefillResponse>& prefill_;
  Played<DecodeResponse>& decode_;
};

// The calls of a request whose attempt 3 has both workers.
class RequestCallsTest : public testing::Test {
 protected:
  RequestCallsTest() {
    for (ReadyWorker* worker : {&prefill_, &decode_}) {
      worker->worker().rpcs = std::make_unique<PlayedRpcs>(prefill_call_, decode_call_);
    }
    calls_.Hold(3, Lease(fleet_, {.prefill = prefill_.id(),
                                  .decode = decode_.id(),
                                  .prompt_tokens = 32,
                                  .computed_tokens = 32}));
  }
  void Open() {
    OpenDecode open{.attempt = 3, .worker_id = decode_.id(), .start = {}};
    open.start.mutable_start();
    calls_.Do(std::move(open));
  }
  void StartThePrefill() {
    calls_.Do(StartPrefill{.attempt = 3, .worker_id = prefill_.id(), .request = {}});
  }
  // The last event that was fed or posted is the end of a call of attempt 3.
  template <typename Ended>
  static void ExpectEnd(const std::vector<RequestEvent>& events, const absl::Status& status) {
    ASSERT_FALSE(events.empty());
    const auto* ended = std::get_if<Ended>(&events.back());
    ASSERT_NE(ended, nullptr);
    EXPECT_EQ(ended->attempt, 3u);
    EXPECT_EQ(ended->status, status);
  }

  ThreadLoop loop_;
  Fleet fleet_{loop_};
  WorkerReports reports_{fleet_};
  Played<PrefillResponse> prefill_call_;
  Played<DecodeResponse> decode_call_;
  ReadyWorker prefill_{loop_, fleet_, internal::v1::WORKER_ROLE_PREFILL};
  ReadyWorker decode_{loop_, fleet_, internal::v1::WORKER_ROLE_DECODE};
  std::vector<RequestEvent> fed_, posted_;
  int ended_ = 0;
  RequestCalls calls_{{.loop = loop_, .fleet = fleet_, .reports = reports_},
                      {.feed = [this](const RequestEvent& event) { fed_.push_back(event); },
                       .post = [this](RequestEvent event) { posted_.push_back(std::move(event)); },
                       .on_ended = [this] { ++ended_; }}};
};

TEST_F(RequestCallsTest, ACallThatIsGivenUpForItsWorkersFaultCountsAsFailed) {
  const absl::Status silent = absl::UnavailableError("it gave no sign of life");
  for (uint32_t attempt = 10; attempt < 10 + CircuitBreaker::kFailures; ++attempt) {
    EXPECT_FALSE(prefill_.worker().breaker.open());
    calls_.Hold(attempt, Lease(fleet_, {.prefill = prefill_.id(), .decode = decode_.id()}));
    calls_.Do(StartPrefill{.attempt = attempt, .worker_id = prefill_.id(), .request = {}});
    calls_.Do(CancelPrefill{attempt, silent});
    EXPECT_TRUE(prefill_call_.cancelled);
    prefill_call_.End(absl::CancelledError("cancelled"));
    calls_.Do(OpenDecode{.attempt = attempt, .worker_id = decode_.id(), .start = {}});
    calls_.Do(CancelDecode{attempt});
    EXPECT_TRUE(decode_call_.cancelled);
    decode_call_.End(absl::CancelledError("cancelled"));
  }
  EXPECT_TRUE(prefill_.worker().breaker.open());
  EXPECT_FALSE(decode_.worker().breaker.open()) << "nothing spoke against it";
}

TEST_F(RequestCallsTest, AnswersAreFedUnderTheirAttemptAndTheEndIsTheLastOfThem) {
  Open();
  ASSERT_EQ(decode_call_.sent.size(), 1u);
  EXPECT_TRUE(decode_call_.sent[0].has_start());
  DecodeResponse accepted;
  accepted.mutable_accepted()->set_cached_tokens(16);
  decode_call_.Answer(accepted);
  const auto* message = std::get_if<DecodeMessage>(&fed_.at(0));
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->attempt, 3u);
  EXPECT_EQ(message->message.accepted().cached_tokens(), 16u);
  EXPECT_FALSE(calls_.empty());
  EXPECT_EQ(ended_, 0);
  decode_call_.End(absl::AbortedError("over"));
  ExpectEnd<DecodeEnded>(fed_, absl::AbortedError("over"));
  EXPECT_TRUE(calls_.empty());
  EXPECT_EQ(ended_, 1);
}

TEST_F(RequestCallsTest, ACallToAWorkerThatIsGoneEndsInATurnOfItsOwn) {
  decode_.SetReady(false);
  fleet_.Remove(decode_.worker());
  calls_.Do(OpenDecode{.attempt = 3, .worker_id = 999, .start = {}});
  ExpectEnd<DecodeEnded>(posted_, absl::UnavailableError("it is gone"));
  calls_.Do(StartPrefill{.attempt = 3, .worker_id = 999, .request = {}});
  ExpectEnd<PrefillEnded>(posted_, absl::UnavailableError("it is gone"));
  EXPECT_TRUE(fed_.empty());
  EXPECT_TRUE(calls_.empty());
}

TEST_F(RequestCallsTest, OnlyCallsToALostWorkerAreCancelledAndAreOverAtOnce) {
  Open();
  StartThePrefill();
  calls_.WorkerLost(prefill_.id(), absl::UnavailableError("lost"));
  EXPECT_TRUE(prefill_call_.cancelled);
  EXPECT_FALSE(decode_call_.cancelled);
  ExpectEnd<PrefillEnded>(posted_, absl::UnavailableError("lost"));
  EXPECT_EQ(posted_.size(), 1u);
  EXPECT_FALSE(calls_.empty());  // until their ends are heard
}

TEST_F(RequestCallsTest, AWorkerComputesFromItsFirstWordOnAndNoPromptThatIsComputed) {
  const auto computes = [this](const ReadyWorker& worker) {
    EXPECT_FALSE(calls_.IsComputedBy(worker.id(), loop_.Now() - absl::Hours(1)));
    return calls_.IsComputedBy(worker.id(), loop_.Now() + absl::Hours(1));
  };
  Open();
  DecodeResponse decode;
  decode.mutable_accepted();
  decode_call_.Answer(decode);
  StartThePrefill();
  EXPECT_FALSE(computes(prefill_) || computes(decode_));
  PrefillResponse prefill;
  prefill.mutable_started();
  prefill_call_.Answer(prefill);
  EXPECT_TRUE(computes(prefill_) && !computes(decode_));
  prefill.mutable_first_token();
  prefill_call_.Answer(prefill);
  EXPECT_FALSE(computes(prefill_) || computes(decode_));
  decode.mutable_committed();
  decode_call_.Answer(decode);
  EXPECT_TRUE(!computes(prefill_) && computes(decode_));
}

TEST_F(RequestCallsTest, ThePrefillTakesThePlaceThatAPostponedPromptHadLeft) {
  calls_.lease(3)->PromptPostponed();
  EXPECT_EQ(prefill_.seen().own_postponed, 1u);
  StartThePrefill();
  EXPECT_EQ(prefill_.seen().own_postponed, 0u);
}

TEST_F(RequestCallsTest, CancelsTheCallsOfTheAttemptThatIsNamed) {
  Open();
  StartThePrefill();
  calls_.Do(CancelDecode{.attempt = 2});
  calls_.Do(CancelPrefill{.attempt = 2});
  EXPECT_FALSE(decode_call_.cancelled);
  EXPECT_FALSE(prefill_call_.cancelled);
  calls_.Do(CancelPrefill{.attempt = 3});
  EXPECT_TRUE(prefill_call_.cancelled);
  EXPECT_FALSE(decode_call_.cancelled);
  calls_.Do(CancelDecode{.attempt = 3});
  EXPECT_TRUE(decode_call_.cancelled);
}

TEST_F(RequestCallsTest, AnAccountThatCannotBeTrueEndsItsCallAndIsTakenByNobody) {
  StartThePrefill();
  PrefillResponse forged;
  forged.mutable_finished()->set_messages(1);
  forged.mutable_finished()->set_bytes_sent(UINT64_MAX);
  prefill_call_.Answer(forged);
  EXPECT_TRUE(prefill_call_.cancelled);
  ASSERT_EQ(fed_.size(), 1u);
  const auto* ended = std::get_if<PrefillEnded>(&fed_.back());
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(ended->attempt, 3u);
  EXPECT_EQ(ended->status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(ended->status.message().find("PrefillFinished.bytes_sent"), absl::string_view::npos)
      << ended->status;
  EXPECT_EQ(prefill_.worker().traffic.hand_off_bytes, 0u);
  PrefillResponse more;
  more.mutable_first_token();
  prefill_call_.Answer(more);
  EXPECT_EQ(fed_.size(), 1u) << "what follows is not taken";
  EXPECT_FALSE(calls_.empty());
  prefill_call_.End(absl::CancelledError("over"));
  EXPECT_TRUE(calls_.empty());

  Open();
  DecodeResponse decode;
  decode.mutable_finished()->mutable_decode()->set_seconds(INT64_MAX);
  decode_call_.Answer(decode);
  EXPECT_TRUE(decode_call_.cancelled);
  const auto* decode_ended = std::get_if<DecodeEnded>(&fed_.back());
  ASSERT_NE(decode_ended, nullptr);
  EXPECT_EQ(decode_ended->status.code(), absl::StatusCode::kInternal);
}

TEST_F(RequestCallsTest, StopsReadingTokensWhileTheSequenceIsPaused) {
  Open();
  SendToDecode pause{.attempt = 3, .message = {}};
  pause.message.mutable_flow()->set_paused(true);
  calls_.Do(std::move(pause));
  DecodeResponse tokens;
  tokens.mutable_tokens()->add_tokens();
  decode_call_.Answer(tokens);
  EXPECT_EQ(decode_call_.reading, nullptr);
  SendToDecode go_on{.attempt = 3, .message = {}};
  go_on.message.mutable_flow()->set_paused(false);
  calls_.Do(std::move(go_on));
  EXPECT_NE(decode_call_.reading, nullptr);
}

}  // namespace
}  // namespace baton
