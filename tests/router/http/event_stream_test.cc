// Streams of events, and clients that leave.
#include <atomic>

#include "absl/strings/match.h"

#include "tests/router/http/http_fixture.h"

namespace baton {
namespace {

class EventStreamTest : public HttpFixture {};

constexpr absl::Duration kNever = absl::Hours(1);

TEST_F(EventStreamTest, TheHeadComesAtOnceAndThenEachEventInOrder) {
  Start({.ping_interval = kNever});
  HttpSocket client(server_->address());
  client.Send(kGet);
  const auto exchange = Next();
  exchange->BeginEvents({{"X-Request-Id", "7"}});
  const HttpAnswer head = client->ReadHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(head.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(head.headers.at("x-request-id"), "7");
  Taken first;
  exchange->Send("data: 1\n\n", first.Teller());
  EXPECT_EQ(client->ReadChunk(), "data: 1\n\n");
  EXPECT_EQ(first.Wait(), true);
  exchange->Send("data: 2\n\n", nullptr);
  exchange->Send("data: 3\n\n", nullptr);
  EXPECT_EQ(client->ReadChunk(), "data: 2\n\n");
  EXPECT_EQ(client->ReadChunk(), "data: 3\n\n");
  exchange->EndEvents();
  EXPECT_EQ(client->ReadUntil("\r\n\r\n"), "0\r\n\r\n");
}

TEST_F(EventStreamTest, TheConnectionServesFurtherRequestsAfterAStream) {
  Start();
  HttpSocket client(server_->address());
  client.Send(std::string(kGet) + kGet);
  auto exchange = Next();
  exchange->BeginEvents({});
  exchange->Send("data: 1\n\n", nullptr);
  exchange->EndEvents();
  const HttpAnswer stream = client->ReadAnswer();
  EXPECT_TRUE(stream.whole);
  Next()->Respond({.body = "next"});
  EXPECT_EQ(client->ReadAnswer().body, "next");
}

TEST_F(EventStreamTest, Http10GetsTheEventsAsTheyAreUntilTheConnectionEnds) {
  Start({.ping_interval = kNever});
  HttpSocket client(server_->address());
  client.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto exchange = Next();
  exchange->BeginEvents({});
  exchange->Send("data: 1\n\n", nullptr);
  exchange->EndEvents();
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_FALSE(answer.headers.contains("transfer-encoding"));
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_EQ(answer.body, "data: 1\n\n");
}

TEST_F(EventStreamTest, ASilentStreamHasACommentLineNowAndThen) {
  Start({.ping_interval = absl::Milliseconds(5)});
  HttpSocket client(server_->address());
  client.Send(kGet);
  const auto exchange = Next();
  exchange->BeginEvents({});
  client->ReadHead();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client->ReadChunk(), ": \n\n");
}

TEST_F(EventStreamTest, AClientThatLeavesAStreamIsNoticedByThePings) {
  Start({.ping_interval = absl::Milliseconds(5)});
  HttpSocket client(server_->address());
  client.Send(kGet);
  const auto exchange = Next();
  Learned gone;
  exchange->OnGone(gone.Teller());
  exchange->BeginEvents({});
  client->ReadHead();
  client.Close();
  EXPECT_TRUE(gone.Wait());
  Taken late;
  exchange->Send("data: 1\n\n", late.Teller());
  EXPECT_EQ(late.Wait(), false);
}

TEST_F(EventStreamTest, AClientThatLeavesWhileItWaitsIsNoticedWithoutAnything) {
  Start({.ping_interval = kNever});
  // Each of the ways out, in each phase of an answer.
  for (const bool reset : {true, false}) {
    for (const bool streams : {true, false}) {
      HttpSocket client(server_->address());
      client.Send(kGet);
      const auto exchange = Next();
      Learned gone;
      exchange->OnGone(gone.Teller());
      if (streams) {
        exchange->BeginEvents({});
        client->ReadHead();
      }
      if (reset) {
        client.Reset();
      } else {
        client.Close();
      }
      EXPECT_TRUE(gone.Wait()) << "reset " << reset << ", streams " << streams;
    }
  }
}

TEST_F(EventStreamTest, AClientThatLeavesAfterUrgentDataIsNoticedToo) {
  Start({.ping_interval = kNever});
  HttpSocket client(server_->address());
  // As much as is read ahead: from then on only errors are watched.
  client.Send(kGet + std::string(size_t{64} << 10, 'x'));
  const auto exchange = Next();
  Learned gone;
  exchange->OnGone(gone.Teller());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client.SendUrgent('!'));
    // By its answer the server has seen the urgent data, most likely.
    Learned seen;
    exchange->Post(seen.Teller());
    ASSERT_TRUE(seen.Wait());
  }
  client.Reset();
  EXPECT_TRUE(gone.Wait());
}

TEST_F(EventStreamTest, WhoAsksLateWhetherTheClientIsGoneIsToldAtOnce) {
  Start();
  HttpSocket client(server_->address());
  client.Send(kGet);
  const auto exchange = Next();
  client.Reset();
  Learned gone;
  ASSERT_TRUE(Eventually([this] { return server_->connections() == 0; }));
  exchange->OnGone(gone.Teller());
  EXPECT_TRUE(gone.Wait());
}

TEST_F(EventStreamTest, AClientThatOnlySendsNoMoreStillGetsItsAnswer) {
  Start({.ping_interval = absl::Milliseconds(1)});
  for (const bool http_1_1 : {true, false}) {
    HttpSocket client(server_->address());
    client.Send(http_1_1 ? kGet : "GET /a HTTP/1.0\r\n\r\n");
    client.HalfClose();
    const auto exchange = Next();
    Learned gone;
    exchange->OnGone(gone.Teller());
    // The only sign that the server has seen the end; who leaves would be noticed by it.
    if (http_1_1) {
      EXPECT_EQ(client->ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    }
    exchange->Respond({.body = "answer"});
    EXPECT_EQ(client->ReadAnswer().body, "answer");
    EXPECT_FALSE(gone.told());
  }
  HttpSocket stream(server_->address());
  stream.Send(kGet);
  const auto exchange = Next();
  exchange->BeginEvents({});
  stream->ReadHead();
  stream.HalfClose();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(stream->ReadChunk(), ": \n\n");
  exchange->EndEvents();
  while (!stream->ReadChunk().empty()) {
  }
  EXPECT_TRUE(stream->AtEnd());
}

TEST_F(EventStreamTest, ARequestSentAheadIsServedToWhoSendsNoMore) {
  Start();
  AnswerAtOnce();
  HttpSocket client(server_->address());
  client.Send(std::string(kGet) + kGet);
  client.HalfClose();
  for (int i = 0; i < 2; ++i) {
    HttpAnswer answer = client->ReadAnswer();
    while (answer.status == 100) answer = client->ReadAnswer();
    EXPECT_EQ(answer.status, 200);
  }
  EXPECT_TRUE(client->AtEnd());
}

TEST_F(EventStreamTest, AClientThatTakesNothingForTooLongIsGone) {
  Start({.stall_timeout = absl::Milliseconds(30), .ping_interval = absl::Milliseconds(1)});
  HttpSocket client(server_->address(), 4096);
  client.Send(kGet);
  const auto exchange = Next();
  Learned gone;
  exchange->OnGone(gone.Teller());
  exchange->BeginEvents({});
  Taken taken;
  exchange->Send(std::string(size_t{20} << 20, 'x'), taken.Teller());
  EXPECT_EQ(taken.Wait(), false);
  EXPECT_TRUE(gone.Wait());
}

TEST_F(EventStreamTest, AStreamThatIsCutDoesNotLookWhole) {
  for (const bool stalls : {true, false}) {
    Start({.stall_timeout = stalls ? absl::Milliseconds(30) : kNever, .ping_interval = kNever});
    HttpSocket client(server_->address(), 4096);
    client.Send("GET /a HTTP/1.0\r\n\r\n");
    const auto exchange = Next();
    exchange->BeginEvents({});
    Taken taken;
    exchange->Send(std::string(stalls ? size_t{20} << 20 : 1, 'x'), taken.Teller());
    EXPECT_EQ(taken.Wait(), !stalls);
    server_->Close();
    client->ReadUntil("the end");
    EXPECT_TRUE(client.was_reset()) << (stalls ? "its reader stalled" : "the server was closed");
  }
}

TEST_F(EventStreamTest, OfWhatAClientDoesNotReadTheSystemTakesLittle) {
  Start({.ping_interval = kNever});
  HttpSocket client(server_->address(), 4096);
  client.Send(kGet);
  const auto exchange = Next();
  exchange->BeginEvents({});
  constexpr int kEvents = 256;
  const auto taken = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < kEvents; ++i) {
    exchange->Send(std::string(4096, 'x'), [taken](bool ok) { *taken += ok ? 1 : 0; });
  }
  Learned tried;
  exchange->Post(tried.Teller());
  ASSERT_TRUE(tried.Wait());
  EXPECT_LE(*taken, 16) << "64 KiB";
  exchange->EndEvents();
  EXPECT_TRUE(client->ReadAnswer().whole);
}

TEST_F(EventStreamTest, WhoIsIdleOrSlowOrDoesNotReadKeepsNobodyWaiting) {
  Start({.acceptor = {.max_connections = 400, .max_connections_of_peer = 400},
         .ping_interval = absl::Milliseconds(5)});
  std::vector<std::unique_ptr<HttpSocket>> others;
  std::vector<std::shared_ptr<HttpExchange>> unread;
  for (int i = 0; i < 50; ++i) {
    for (const char* begun :
         {"", "POST /p HTT", "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na"}) {
      others.push_back(std::make_unique<HttpSocket>(server_->address()));
      others.back()->Send(begun);
    }
    others.push_back(std::make_unique<HttpSocket>(server_->address(), 4096));
    others.back()->Send(kGet);
    unread.push_back(Next());
    unread.back()->BeginEvents({});
    unread.back()->Send(std::string(size_t{1} << 20, 'x'), nullptr);
  }
  AnswerAtOnce();
  HttpSocket client(server_->address());
  client.Send(kGet);
  EXPECT_EQ(client->ReadAnswer().status, 200);
}

TEST_F(EventStreamTest, StreamsAreCountedWhileTheyAreOpen) {
  Start({.ping_interval = kNever});
  EXPECT_EQ(server_->event_streams(), 0u);
  for (const bool leaves : {false, true}) {
    HttpSocket client(server_->address());
    client.Send(kGet);
    const auto exchange = Next();
    Learned gone;
    exchange->OnGone(gone.Teller());
    exchange->BeginEvents({});
    client->ReadHead();
    EXPECT_EQ(server_->event_streams(), 1u);
    if (leaves) {
      client.Reset();
      EXPECT_TRUE(gone.Wait());
    } else {
      exchange->EndEvents();
      client->ReadUntil("0\r\n\r\n");
      client.Send(kGet);
      Next()->Respond({});
      client->ReadAnswer();
    }
    EXPECT_EQ(server_->event_streams(), 0u);
  }
}

TEST_F(EventStreamTest, AReaderWhoTakesItsTimeGetsAllOfIt) {
  Start({.ping_interval = absl::Milliseconds(1)});
  HttpSocket client(server_->address(), 4096);
  client.Send(kGet);
  const auto exchange = Next();
  exchange->BeginEvents({});
  constexpr size_t kBytes = size_t{3} << 20;
  Taken taken;
  exchange->Send(std::string(kBytes, 'x'), taken.Teller());
  exchange->EndEvents();
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body.size() - answer.body.find('x'), kBytes);
  EXPECT_EQ(taken.Wait(), true);
}

TEST_F(EventStreamTest, AStreamWithALongEventTooManyIsBroken) {
  constexpr size_t kLong = 6000000;
  Start({.max_unread_bytes = 10000000});
  HttpSocket first(server_->address(), /*receive_buffer=*/4096);
  first.Send(kGet);
  const auto unread = Next();
  unread->BeginEvents({});
  Taken taken;
  unread->Send(std::string(kLong, 'a'), taken.Teller());
  HttpSocket second(server_->address());
  second.Send(kGet);
  const auto broken = Next();
  broken->BeginEvents({});
  broken->Send("short\n", nullptr);
  Taken lost;
  broken->Send(std::string(kLong, 'b'), lost.Teller());
  EXPECT_EQ(lost.Wait(), false);
  EXPECT_FALSE(second->ReadAnswer().whole);
  EXPECT_EQ(first->ReadHead().status, 200);
  EXPECT_EQ(first->ReadChunk().size(), kLong);
  EXPECT_EQ(taken.Wait(), true);
}

TEST_F(EventStreamTest, ABrokenStreamHasNoEnd) {
  Start();
  for (const bool http_1_1 : {true, false}) {
    HttpSocket client(server_->address());
    client.Send(http_1_1 ? kGet : "GET /a HTTP/1.0\r\n\r\n");
    const auto exchange = Next();
    exchange->BeginEvents({});
    client->ReadHead();
    exchange->Send("data: 1\n\n", nullptr);
    exchange->Break();
    if (http_1_1) {
      EXPECT_EQ(client->ReadChunk(), "data: 1\n\n");
      EXPECT_TRUE(client->AtEnd()) << "without a last chunk";
    } else {
      client->ReadUntil("never");
      EXPECT_TRUE(client.was_reset());
    }
  }
}

TEST_F(EventStreamTest, AStreamThatIsBrokenUnreadIsResetAndNothingMoreIsSent) {
  Start({.ping_interval = kNever});
  for (const bool http_1_1 : {true, false}) {
    HttpSocket client(server_->address(), 4096);
    client.Send(http_1_1 ? kGet : "GET /a HTTP/1.0\r\n\r\n");
    const auto exchange = Next();
    exchange->BeginEvents({});
    Taken unread, late;
    exchange->Send(std::string(size_t{20} << 20, 'x'), unread.Teller());
    exchange->Break();
    exchange->Send("data: late\n\n", late.Teller());
    exchange->EndEvents();
    EXPECT_EQ(unread.Wait(), false);
    EXPECT_EQ(late.Wait(), false);
    client->ReadUntil("late");
    EXPECT_TRUE(client.was_reset());
  }
}

TEST_F(EventStreamTest, AStreamThatNobodyHoldsIsBroken) {
  Start();
  HttpSocket client(server_->address());
  client.Send(kGet);
  Next()->BeginEvents({});
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.whole);
}

TEST_F(EventStreamTest, HeadOfAStreamHasNoEvents) {
  Start({.ping_interval = absl::Milliseconds(1)});
  HttpSocket client(server_->address());
  client.Send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  auto exchange = Next();
  exchange->BeginEvents({});
  Taken taken;
  exchange->Send("data: 1\n\n", taken.Teller());
  EXPECT_EQ(taken.Wait(), true);
  exchange->EndEvents();
  client->ReadHead();
  client.Send(kGet);
  Next()->Respond({.body = "next"});
  EXPECT_EQ(client->ReadAnswer().body, "next");
}

}  // namespace
}  // namespace baton
