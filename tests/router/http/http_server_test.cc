#include "router/http/http_server.h"

#include "absl/strings/match.h"

#include "tests/router/http/http_fixture.h"

namespace baton {
namespace {

using testing::HasSubstr;

class HttpServerTest : public HttpFixture {};

std::string Post(absl::string_view body, absl::string_view headers = "") {
  return absl::StrCat("POST /p HTTP/1.1\r\nHost: x\r\n", headers, "Content-Length: ", body.size(),
                      "\r\n\r\n", body);
}

TEST_F(HttpServerTest, AHandlerSeesTheRequestAndTheClientItsAnswer) {
  Start();
  HttpSocket client(server_->address());
  client.Send(
      "POST /v1/a%20b?x=%20 HTTP/1.1\r\nHost: x\r\nX-Some:  thing \r\nContent-Length: "
      "5\r\n\r\nhello");
  const auto exchange = Next();
  const HttpRequest& request = exchange->request();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/a b");
  EXPECT_EQ(request.query, "x=%20");
  EXPECT_EQ(request.Header("x-some"), "thing");
  EXPECT_EQ(body_.bytes, "hello");
  EXPECT_THAT(request.client.address, testing::StartsWith("ipv4:127.0.0.1:"));
  EXPECT_FALSE(request.client.encrypted);
  exchange->Respond({.status = 429, .headers = {{"Retry-After", "1"}}, .body = "wait"});
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.body, "wait");
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_EQ(answer.headers.at("content-length"), "4");
  EXPECT_EQ(answer.headers.at("x-content-type-options"), "nosniff");
  EXPECT_TRUE(answer.headers.contains("date"));
  EXPECT_FALSE(answer.headers.contains("connection"));
}

TEST_F(HttpServerTest, ManyRequestsFollowOneAnotherOnOneConnection) {
  Start();
  AnswerAtOnce();
  HttpSocket client(server_->address());
  for (int i = 0; i < 50; ++i) {
    client.Send(Post(std::string(static_cast<size_t>(i), 'b')));
    ASSERT_EQ(client->ReadAnswer().body, "POST /p  " + std::string(static_cast<size_t>(i), 'b'));
  }
  EXPECT_EQ(server_->connections(), 1u);
}

TEST_F(HttpServerTest, RequestsSentAheadAreAnsweredInTheirOrderOneAtATime) {
  Start();
  HttpSocket client(server_->address());
  client.Send(Post("1") + Post("2") + Post("3"));
  for (const char* body : {"1", "2", "3"}) {
    const auto exchange = Next();
    EXPECT_EQ(body_.bytes, body);
    EXPECT_EQ(handled(), static_cast<size_t>(body[0] - '0'));
    exchange->Respond({.body = body});
    EXPECT_EQ(client->ReadAnswer().body, body);
  }
}

TEST_F(HttpServerTest, ManyRequestsSentAheadAreAllAnswered) {
  Start();
  AnswerAtOnce();
  constexpr int kRequests = 3000;  // more than may be read ahead
  HttpSocket client(server_->address());
  std::string requests;
  for (int i = 0; i < kRequests; ++i) requests += kGet;
  client.Send(requests);
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(client->ReadAnswer().status, 200) << i;
}

TEST_F(HttpServerTest, AConnectionIsClosedAfterTheAnswerWhereTheClientSaysSo) {
  Start();
  AnswerAtOnce();
  HttpSocket client(server_->address());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n");
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client->AtEnd());
}

TEST_F(HttpServerTest, EachAnswerIsToldOnceWithWhatWasAskedFor) {
  Start({.max_body_bytes = 10});
  AnswerAtOnce();
  HttpSocket client(server_->address());
  client.Send(Post("1"));
  client->ReadAnswer();
  client.Send(Post("more than ten bytes"));
  client->ReadAnswer();
  HttpSocket other(server_->address());
  other.Send("no request\r\n\r\n");
  EXPECT_EQ(other->ReadAnswer().status, 400);
  EXPECT_THAT(answered(), testing::ElementsAre("/p 200 timed", "/p 413 timed", " 400"));
}

TEST_F(HttpServerTest, Http10ClosesUnlessAskedToKeepTheConnection) {
  Start();
  AnswerAtOnce();
  HttpSocket closing(server_->address());
  closing.Send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(closing->ReadAnswer().headers.at("connection"), "close");
  EXPECT_TRUE(closing->AtEnd());
  HttpSocket keeping(server_->address());
  for (int i = 0; i < 2; ++i) {
    keeping.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const HttpAnswer answer = keeping->ReadAnswer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("connection"), "keep-alive");
  }
}

TEST_F(HttpServerTest, HeadGetsTheHeadersOfGetWithoutItsBody) {
  Start();
  HttpSocket client(server_->address());
  client.Send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  auto exchange = Next();
  EXPECT_EQ(exchange->request().method, "HEAD");
  exchange->Respond({.body = "four"});
  EXPECT_EQ(client->ReadAnswer(false).headers.at("content-length"), "4");
  client.Send(kGet);
  Next()->Respond({.body = "next"});
  EXPECT_EQ(client->ReadAnswer().body, "next");
}

TEST_F(HttpServerTest, AChunkedBodyIsPutTogetherAndItsTrailersAreNoHeaders) {
  Start();
  HttpSocket client(server_->address());
  client.Send("POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n");
  for (const char* piece :
       {"5;a=b\r", "\nhel", "lo\r\n1\r\n", "!", "\r\n0\r\nX-Late: 1\r\n", "\r\n"}) {
    client.Send(piece);
  }
  const auto exchange = Next();
  EXPECT_EQ(body_.bytes, "hello!");
  EXPECT_EQ(exchange->request().Header("x-late"), "");
  exchange->Respond({});
  EXPECT_EQ(client->ReadAnswer().status, 200);
  client.Send(kGet);
  EXPECT_EQ(Next()->request().path, "/a");
}

TEST_F(HttpServerTest, WhoExpectsToBeAskedForTheBodyIsAskedOnceTheHeadHasPassed) {
  Start();
  HttpSocket client(server_->address());
  client.Send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client->ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("ok");
  auto exchange = Next();
  EXPECT_EQ(body_.bytes, "ok");
  exchange->Respond({.body = "got it"});
  EXPECT_EQ(client->ReadAnswer().body, "got it");
}

TEST_F(HttpServerTest, WhoExpectsToBeAskedForTheBodyIsNotAskedWhereTheHeadDoesNotPass) {
  Start();
  SetCheck([](const HttpRequest&) { return HttpResponse{.status = 401, .body = "key"}; });
  HttpSocket client(server_->address());
  client.Send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client->AtEnd());
  EXPECT_EQ(handled(), 0u);
}

TEST_F(HttpServerTest, AnAnswerToAHeadWithoutABodyKeepsTheConnection) {
  Start();
  SetCheck([](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/a") return HttpResponse{.status = 404};
    return std::nullopt;
  });
  HttpSocket client(server_->address());
  client.Send(kGet);
  EXPECT_EQ(client->ReadAnswer().status, 404);
  client.Send(Post("b"));
  Next()->Respond({});
  EXPECT_EQ(client->ReadAnswer().status, 200);
}

TEST_F(HttpServerTest, ABodyThatIsTooLongIsRefusedBeforeItIsReadAndTheClientCanReadThat) {
  Start({.max_body_bytes = 1000});
  HttpSocket announced(server_->address());
  announced.Send(
      "POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n");
  HttpAnswer answer = announced->ReadAnswer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.body, "/p|413|the body is longer than 1000 bytes");
  EXPECT_TRUE(announced->AtEnd());
  // Much of it is on its way already: it must not reset the connection.
  HttpSocket sent(server_->address());
  sent.Send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
  sent.Send(std::string(3000000, 'b'));
  EXPECT_EQ(sent->ReadAnswer().status, 413);
  EXPECT_TRUE(sent->AtEnd());
  HttpSocket chunked(server_->address());
  chunked.Send("POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3E8\r\n");
  chunked.Send(std::string(1000, 'b') + "\r\n1\r\n");
  EXPECT_EQ(chunked->ReadAnswer().status, 413);
  HttpSocket fits(server_->address());
  fits.Send(Post(std::string(1000, 'b')));
  Next();
  EXPECT_EQ(body_.bytes.size(), 1000u);
}

TEST_F(HttpServerTest, HeadersThatAreTooLongAreRefused) {
  Start({.max_header_bytes = 200});
  HttpSocket client(server_->address());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + std::string(200, 'a'));
  EXPECT_EQ(client->ReadAnswer().status, 431);
  EXPECT_TRUE(client->AtEnd());
}

TEST_F(HttpServerTest, WhatIsNoRequestIsRefusedAndTheConnectionClosed) {
  Start();
  HttpSocket client(server_->address());
  client.Send("GET / HTTP/1.1\r\nBad Header: x\r\n\r\n");
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("/|400|a header's name"));
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_EQ(answer.headers.at("content-type"), "application/json");
  EXPECT_TRUE(client->AtEnd());
}

TEST_F(HttpServerTest, SlowHeadersGetATimeout) {
  // Headers that begin within the first of the two have as long again.
  Start({.header_timeout = absl::Seconds(1)});
  HttpSocket client(server_->address());
  client.Send("GET / HTTP/1.1\r\nHo");
  EXPECT_EQ(client->ReadAnswer().status, 408);
  EXPECT_TRUE(client->AtEnd());
}

TEST_F(HttpServerTest, SlowBodiesGetATimeout) {
  Start({.body_timeout = absl::Milliseconds(30)});
  HttpSocket client(server_->address());
  client.Send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel");
  EXPECT_EQ(client->ReadAnswer().status, 408);
  EXPECT_TRUE(client->AtEnd());
}

TEST_F(HttpServerTest, ConnectionsThatAskNothingAreClosedWithoutAWord) {
  Start({.header_timeout = absl::Milliseconds(20)});
  HttpSocket silent(server_->address());
  EXPECT_TRUE(silent->AtEnd());
}

TEST_F(HttpServerTest, ConnectionsThatAskNothingMoreAreClosedWithoutAWord) {
  Start({.idle_timeout = absl::Milliseconds(20)});
  AnswerAtOnce();
  HttpSocket used(server_->address());
  used.Send(kGet);
  EXPECT_EQ(used->ReadAnswer().status, 200);
  EXPECT_TRUE(used->AtEnd());
}

TEST_F(HttpServerTest, ASlowClientKeepsNobodyWaiting) {
  Start();
  AnswerAtOnce();
  HttpSocket slow(server_->address());
  slow.Send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel");
  HttpSocket quick(server_->address());
  quick.Send(kGet);
  EXPECT_EQ(quick->ReadAnswer().status, 200);
  slow.Send("lo");
  EXPECT_EQ(slow->ReadAnswer().body, "POST /p  hello");
}

TEST_F(HttpServerTest, AnExchangeThatNobodyHoldsGetsAnError) {
  Start();
  HttpSocket client(server_->address());
  client.Send(kGet);
  Next().reset();
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body, "/a|500|the server has lost this request");
  client.Send(kGet);
  Next()->Respond({});
  EXPECT_EQ(client->ReadAnswer().status, 200);
}

TEST_F(HttpServerTest, ALongAnswerComesWhole) {
  Start();
  HttpSocket client(server_->address());
  client.Send(kGet);
  std::string body(5'000'000, 'a');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  Next()->Respond({.body = body});
  EXPECT_EQ(client->ReadAnswer().body, body);
}

TEST_F(HttpServerTest, DrainingEndsIdleConnectionsAtOnceAndOthersWithTheirAnswer) {
  Start();
  HttpSocket idle(server_->address());
  idle.Send(kGet);
  Next()->Respond({});
  EXPECT_EQ(idle->ReadAnswer().status, 200);
  HttpSocket busy(server_->address());
  busy.Send(kGet);
  const auto exchange = Next();
  HttpSocket silent(server_->address());
  server_->Drain();
  EXPECT_TRUE(idle->AtEnd());
  exchange->Respond({.body = "last"});
  const HttpAnswer answer = busy->ReadAnswer();
  EXPECT_EQ(answer.body, "last");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(busy->AtEnd());
}

TEST_F(HttpServerTest, WhoComesWhileItDrainsIsAnsweredOnce) {
  Start();
  AnswerAtOnce();
  server_->Drain();
  HttpSocket client(server_->address());
  client.Send(std::string(kGet) + kGet);
  const HttpAnswer answer = client->ReadAnswer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client->AtEnd());
}

TEST_F(HttpServerTest, AnAnswerIsUnfinishedUntilAllOfItIsWrittenOrItsClientIsGone) {
  Start();
  const auto all_finished = [this] { return server_->unfinished_answers() == 0; };
  for (const bool leaves : {false, true}) {
    HttpSocket client(server_->address(), 4096);
    client.Send(kGet);
    const auto exchange = Next();
    EXPECT_EQ(server_->unfinished_answers(), 1u);
    exchange->Respond({.body = std::string(size_t{20} << 20, 'x')});
    Learned begun;
    exchange->Post(begun.Teller());
    ASSERT_TRUE(begun.Wait());
    EXPECT_EQ(server_->unfinished_answers(), 1u);
    if (leaves) {
      client.Reset();
    } else {
      EXPECT_TRUE(client->ReadAnswer().whole);
    }
    EXPECT_TRUE(Eventually(all_finished));
  }
  HttpSocket wrong(server_->address());
  wrong.Send("GET / HTTP/9.9\r\n\r\n");
  EXPECT_NE(wrong->ReadAnswer().status, 200);
  EXPECT_TRUE(Eventually(all_finished));
}

TEST_F(HttpServerTest, WhoeverWorksOnAnAnswerMayAskWhetherItsClientHasLeft) {
  Start();
  std::shared_ptr<HttpExchange> exchange;
  {
    HttpSocket client(server_->address());
    client.Send(kGet);
    exchange = Next();
    EXPECT_FALSE(exchange->gone());
    client.Reset();
  }
  EXPECT_TRUE(Eventually([&] { return exchange->gone(); }));
}

TEST_F(HttpServerTest, AnExchangeThatOutlivesTheServerDoesNothing) {
  Start({.threads = 2});
  HttpSocket client(server_->address());
  client.Send(kGet);
  const auto exchange = Next();
  Learned gone;
  exchange->OnGone(gone.Teller());
  server_.reset();
  EXPECT_TRUE(gone.told());
  EXPECT_TRUE(client->AtEnd());
  exchange->BeginEvents({});
  exchange->Send("data: x\n\n", [](bool) { ADD_FAILURE() << "nobody is called any more"; });
  exchange->EndEvents();
}

}  // namespace
}  // namespace baton
