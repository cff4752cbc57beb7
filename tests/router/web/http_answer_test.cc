// The answer to a list of prompts whose calls write, end and break in any order.
#include "router/web/http_answer.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "router/calls/thread_loop.h"
#include "router/openai/completion_request.h"
#include "tests/router/openai/request_reading.h"
#include "tests/router/openai/responses.h"
#include "tests/router/web/played_exchange.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// Knows which thread has made the body of an answer.
class WhereFormat final : public AnswerFormat {
 public:
  explicit WhereFormat(std::atomic<std::thread::id>& where) : where_(where) {}
  void Add(size_t, const v1::GenerateResponse&, std::string&) override {}
  void Finish(std::string& out) override {
    where_ = std::this_thread::get_id();
    out = "{}";
  }
  void Fail(const ApiError&, std::string&) override {}

 private:
  std::atomic<std::thread::id>& where_;
};

// Knows which thread has made the last events of a stream whose others are long.
class LongFormat final : public AnswerFormat {
 public:
  explicit LongFormat(std::atomic<std::thread::id>& where) : where_(where) {}
  void Add(size_t, const v1::GenerateResponse& response, std::string& out) override {
    if (response.has_complete()) where_ = std::this_thread::get_id();
    out = response.has_complete() ? "last," : std::string(size_t{300} << 10, 'a');
  }
  void Finish(std::string& out) override {
    EXPECT_EQ(where_.load(), std::this_thread::get_id());
    out = "end";
  }
  void Fail(const ApiError&, std::string&) override {}

 private:
  std::atomic<std::thread::id>& where_;
};

// Writes a part of everything as the rest. Knows which thread has made the events of a response.
class RestFormat final : public AnswerFormat {
 public:
  explicit RestFormat(std::atomic<std::thread::id>& where) : where_(where) {}
  void Add(size_t, const v1::GenerateResponse& response, std::string& out) override {
    where_ = std::this_thread::get_id();
    if (response.has_complete() && response.complete().text().empty()) return;
    out = "a";
    rest_ = absl::Cord("b,");
  }
  void Finish(std::string& out) override {
    out = "c";
    rest_ = absl::Cord("d.");
  }
  void Fail(const ApiError&, std::string& out) override {
    out = "e";
    rest_ = absl::Cord("f!");
  }
  absl::Cord TakeRest() override { return std::exchange(rest_, absl::Cord()); }

 private:
  std::atomic<std::thread::id>& where_;
  absl::Cord rest_;
};

class HttpAnswerTest : public testing::Test {
 protected:
  ~HttpAnswerTest() override {
    loop_.Run([this] { calls_.clear(); });
  }

  static ApiRequest Read(bool stream, const std::vector<std::string>& prompts) {
    const nlohmann::json body = {{"prompt", prompts}, {"stream", stream}};
    absl::StatusOr<ApiRequest> request = ReadCompletionRequest(body.dump(), ContextOf(""));
    EXPECT_TRUE(request.ok()) << request.status();
    return *std::move(request);
  }
  void Start(bool stream, const std::vector<std::string>& prompts) { Start(Read(stream, prompts)); }
  void Start(ApiRequest request) {
    const size_t prompts = request.prompts.size();
    const auto answer =
        std::make_shared<HttpAnswer>(exchange_, std::move(request), Api::kOpenAi, "mine",
                                     /*tenant=*/"", pool_);
    answer_ = answer;
    for (size_t i = 0; i < prompts; ++i) {
      auto call = std::make_unique<Call>();
      call->call = std::make_unique<ClientCall>(loop_, answer->NewWriter(i));
      call->call->SetHandlers(
          {.on_cancelled =
               [&c = *call](bool client_left) { (client_left ? c.left : c.unneeded) = true; },
           .on_behind = [] {},
           .on_caught_up = [] {},
           .on_done = [&c = *call] { c.call.reset(); }});
      calls_.push_back(std::move(call));
    }
    answer->Started();
    Settle();
  }
  void LetIn(size_t prompt) {
    answer_.lock()->Settled(prompt, 1);
    Settle();
  }
  void Send(size_t prompt, v1::GenerateResponse response) {
    loop_.Run([&] { calls_[prompt]->call->Send(std::move(response)); });
    Settle();
  }
  void Finish(size_t prompt, const absl::Status& status) {
    loop_.Run([&] { calls_[prompt]->call->FinishWith(status); });
    Settle();
  }
  void Complete(size_t prompt) {
    Send(prompt, Last(baton::Complete(0, ""), 1, 1));
    Finish(prompt, absl::OkStatus());
  }
  // Lets the answer and the calls do all that they have to do.
  void Settle() {
    do {
      loop_.Run([] {});
    } while (exchange_->Run());
  }
  // Answers a request that is no stream.
  std::thread::id WhereAWholeBodyIsMade() {
    std::atomic<std::thread::id> where{};
    ApiRequest request = Read(/*stream=*/false, {"a"});
    request.format = std::make_unique<WhereFormat>(where);
    Start(std::move(request));
    LetIn(0);
    Complete(0);
    const absl::Time until = absl::Now() + absl::Seconds(20);
    while (exchange_->response.status == 0 && absl::Now() < until) Settle();
    EXPECT_EQ(exchange_->response.status, 200);
    EXPECT_EQ(exchange_->response.body, "{}");
    EXPECT_TRUE(ended(0));
    return where;
  }
  // Streams an answer that is long before its last response.
  std::thread::id WhereALongStreamEnds() {
    std::atomic<std::thread::id> where{};
    ApiRequest request = Read(/*stream=*/true, {"a"});
    request.format = std::make_unique<LongFormat>(where);
    Start(std::move(request));
    LetIn(0);
    Send(0, Chunk(0, "a"));
    Complete(0);
    const absl::Time until = absl::Now() + absl::Seconds(20);
    while (!exchange_->ended && absl::Now() < until) Settle();
    EXPECT_TRUE(exchange_->ended);
    EXPECT_TRUE(absl::EndsWith(exchange_->sent, "alast,end"));
    Settle();
    EXPECT_TRUE(ended(0));
    return where;
  }
  bool ended(size_t prompt) const { return calls_[prompt]->call == nullptr; }

  struct Call {
    std::unique_ptr<ClientCall> call;  // null: it was told its end
    bool left = false;                 // it was told that the client has left
    bool unneeded = false;             // it was told that its answer ended without it
  };
  ThreadLoop loop_;
  absl::Notification pool_is_busy_,
      pool_may_go_on_;  // outlive the pool's thread, which waits for one
  PreparingPool pool_{/*threads=*/1, /*capacity=*/1};
  std::shared_ptr<PlayedExchange> exchange_ = std::make_shared<PlayedExchange>();
  std::weak_ptr<HttpAnswer> answer_;
  std::vector<std::unique_ptr<Call>> calls_;
};

TEST_F(HttpAnswerTest, WhatAPromptWritesBeforeAllAreLetInIsTheBeginningOfTheStream) {
  Start(/*stream=*/true, {"a", "b"});
  LetIn(0);
  Send(0, Chunk(0, "early"));
  Send(0, Chunk(0, ", later"));
  EXPECT_FALSE(exchange_->begun);
  LetIn(1);
  EXPECT_TRUE(exchange_->begun);
  Send(0, Chunk(0, ", last"));
  Complete(0);
  Send(1, Chunk(0, "other"));
  Complete(1);
  EXPECT_TRUE(exchange_->ended);
  std::vector<std::string> texts(2);
  for (const auto& event : Events(exchange_->sent)) {
    for (const auto& choice : event["choices"]) {
      texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
    }
  }
  EXPECT_EQ(texts[0], "early, later, last");
  EXPECT_EQ(texts[1], "other");
  EXPECT_TRUE(ended(0) && ended(1));
}

TEST_F(HttpAnswerTest, AWarningIsAHeaderOfAWholeAnswerAndOfAStream) {
  const HttpHeader expected{"x-baton-warning", "left out: a"};
  ApiRequest streamed = Read(/*stream=*/true, {"a"});
  streamed.warning = expected.value;
  Start(std::move(streamed));
  LetIn(0);
  EXPECT_THAT(exchange_->stream_headers, testing::Contains(expected));
  Complete(0);

  exchange_ = std::make_shared<PlayedExchange>();
  calls_.clear();
  ApiRequest whole = Read(/*stream=*/false, {"a"});
  whole.warning = expected.value;
  Start(std::move(whole));
  LetIn(0);
  Complete(0);
  const absl::Time until = absl::Now() + absl::Seconds(20);
  while (exchange_->response.status == 0 && absl::Now() < until) Settle();
  EXPECT_THAT(exchange_->response.headers, testing::Contains(expected));
}

TEST_F(HttpAnswerTest, ARefusalEndsTheOthersAndDropsWhatTheyHaveWritten) {
  Start(/*stream=*/true, {"a", "b"});
  LetIn(0);
  Send(0, Chunk(0, "early"));
  Finish(1, absl::InvalidArgumentError("no such prompt"));
  EXPECT_EQ(exchange_->response.status, 400);
  EXPECT_THAT(exchange_->response.body, HasSubstr("no such prompt"));
  EXPECT_TRUE(ended(1));
  EXPECT_TRUE(calls_[0]->unneeded);
  Finish(0, absl::CancelledError(""));
  EXPECT_TRUE(ended(0));
  EXPECT_FALSE(exchange_->begun);
}

TEST_F(HttpAnswerTest, AClientThatLeavesBeforeTheStreamEndsAllOfIt) {
  Start(/*stream=*/true, {"a", "b"});
  LetIn(0);
  Send(0, Chunk(0, "early"));
  exchange_->Leave();
  Settle();
  for (const size_t prompt : {0, 1}) {
    EXPECT_TRUE(calls_[prompt]->left);
    Finish(prompt, absl::CancelledError(""));
    EXPECT_TRUE(ended(prompt));
  }
}

TEST_F(HttpAnswerTest, AWholeBodyIsMadeByThePool) {
  const std::thread::id where = WhereAWholeBodyIsMade();
  EXPECT_NE(where, std::thread::id());
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST_F(HttpAnswerTest, AWholeBodyIsMadeAtOnceWhereThePoolIsBusy) {
  ASSERT_TRUE(pool_.TryRun({.run = [this](const absl::Status&) {
    pool_is_busy_.Notify();
    pool_may_go_on_.WaitForNotification();
  }}));
  pool_is_busy_.WaitForNotification();
  ASSERT_TRUE(pool_.TryRun({.run = [](const absl::Status&) {}}));
  EXPECT_EQ(WhereAWholeBodyIsMade(), std::this_thread::get_id());
  pool_may_go_on_.Notify();
}

TEST_F(HttpAnswerTest, TheEndOfALongStreamIsMadeByThePool) {
  EXPECT_NE(WhereALongStreamEnds(), std::this_thread::get_id());
}

TEST_F(HttpAnswerTest, WhatIsLongFollowsTheBytesBeforeIt) {
  std::atomic<std::thread::id> where{};
  enum class End { kStream, kBrokenStream, kBody };
  for (const End end : {End::kStream, End::kBrokenStream, End::kBody}) {
    exchange_ = std::make_shared<PlayedExchange>();
    calls_.clear();
    ApiRequest request = Read(/*stream=*/end != End::kBody, {"a"});
    request.format = std::make_unique<RestFormat>(where);
    Start(std::move(request));
    LetIn(0);
    Send(0, Chunk(0, "x"));
    if (end == End::kBrokenStream) {
      Finish(0, absl::UnavailableError("gone"));
    } else {
      Complete(0);
    }
    const auto over = [&] { return exchange_->ended || exchange_->response.status != 0; };
    const absl::Time until = absl::Now() + absl::Seconds(20);
    while (!over() && absl::Now() < until) Settle();
    Settle();
    EXPECT_TRUE(ended(0));
    EXPECT_EQ(exchange_->sent, end == End::kStream         ? "ab,cd."
                               : end == End::kBrokenStream ? "ab,ef!"
                                                           : "");
    EXPECT_EQ(exchange_->response.body, end == End::kBody ? "cd." : "");
  }
}

TEST_F(HttpAnswerTest, TheEventsOfALongResponseAreMadeByThePool) {
  for (const bool is_long : {false, true}) {
    std::atomic<std::thread::id> where{};
    exchange_ = std::make_shared<PlayedExchange>();
    calls_.clear();
    ApiRequest request = Read(/*stream=*/true, {"a"});
    request.format = std::make_unique<RestFormat>(where);
    Start(std::move(request));
    LetIn(0);
    const std::string text(is_long ? size_t{300} << 10 : 1, 'x');
    Send(0, Last(baton::Complete(0, text), 1, 1));
    const absl::Time until = absl::Now() + absl::Seconds(20);
    while (exchange_->sent.empty() && absl::Now() < until) Settle();
    EXPECT_EQ(exchange_->sent, "ab,");
    EXPECT_EQ(where.load() == std::this_thread::get_id(), !is_long);
    Settle();
    Finish(0, absl::OkStatus());
  }
}

TEST_F(HttpAnswerTest, AReaderWhoStallsEndsTheOtherPromptsToo) {
  Start(/*stream=*/true, {"a", "b"});
  LetIn(0);
  LetIn(1);
  exchange_->StopReading();
  Send(0, Chunk(0, "unread"));
  Finish(0, absl::ResourceExhaustedError("the client does not read"));
  EXPECT_FALSE(ended(0));
  loop_.Run([&] { calls_[0]->call->Abort(); });
  Settle();
  EXPECT_TRUE(exchange_->broken);
  EXPECT_TRUE(ended(0));
  EXPECT_TRUE(calls_[1]->unneeded);
  Send(1, Chunk(0, "in vain"));
  Finish(1, absl::CancelledError(""));
  EXPECT_TRUE(ended(1));
}

}  // namespace
}  // namespace baton
