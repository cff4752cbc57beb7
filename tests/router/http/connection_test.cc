#include "router/http/connection.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/router/http/body_room.h"
#include "tests/router/http/http_fixture.h"

namespace baton {
namespace {

using testing::HasSubstr;

class ConnectionTest : public HttpFixture {};

TEST_F(ConnectionTest, ABodyIsCountedAsItComesAndUntilItIsDropped) {
  const CountedRoom room(5000);
  SetRoom(room.Giver());
  Start();
  for (const char* length : {"Content-Length: 3000", "Transfer-Encoding: chunked"}) {
    const bool chunked = length[0] == 'T';
    HttpSocket client(server_->address());
    client.Send(absl::StrCat("POST /p HTTP/1.1\r\nHost: x\r\n", length, "\r\n\r\n",
                             chunked ? "BB8\r\n" : "", std::string(1000, 'b')));
    EXPECT_TRUE(Eventually([&] { return room.used() >= 1000; }));
    EXPECT_LT(room.used(), 2000u) << "the rest has not come";
    client.Send(std::string(2000, 'b') + (chunked ? "\r\n0\r\n\r\n" : ""));
    const auto exchange = Next();
    EXPECT_EQ(body_.bytes.size(), 3000u);
    EXPECT_GE(room.used(), 3000u);
    body_.Drop();
    EXPECT_EQ(room.used(), 0u);
    exchange->Respond({.body = "ok"});
    EXPECT_EQ(client->ReadAnswer().body, "ok");
  }
  HttpSocket leaves(server_->address());
  leaves.Send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\nbbb");
  EXPECT_TRUE(Eventually([&] { return room.used() > 0; }));
  leaves.Close();
  EXPECT_TRUE(Eventually([&] { return room.used() == 0; }));
}

TEST_F(ConnectionTest, ARequestWithoutRoomForItsBodyIsHandedOverWithoutItAndEndsItsConnection) {
  const CountedRoom room(5000);
  SetRoom(room.Giver());
  Start();
  HttpSocket first(server_->address());
  first.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n" +
             std::string(2000, 'b'));
  EXPECT_TRUE(Eventually([&] { return room.used() > 2000; }));
  const size_t used = room.used();
  for (const char* length : {"Content-Length: 4000", "Transfer-Encoding: chunked"}) {
    HttpSocket second(server_->address());
    second.Send(absl::StrCat("POST /b HTTP/1.1\r\nHost: x\r\n", length, "\r\n\r\n",
                             length[0] == 'T' ? "FA0\r\n" : "", std::string(3500, 'b')));
    const auto exchange = Next();
    EXPECT_EQ(exchange->request().path, "/b");
    EXPECT_TRUE(absl::IsResourceExhausted(body_.status)) << body_.status;
    EXPECT_EQ(body_.bytes, "");
    EXPECT_EQ(room.used(), used) << "what was there of it counts no more";
    exchange->Respond({.status = 429, .headers = {{"Retry-After", "1"}}, .body = "full"});
    const HttpAnswer answer = second->ReadAnswer();
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(answer.headers.at("connection"), "close");
    EXPECT_TRUE(second->AtEnd());
  }
  first.Send(std::string(1000, 'b'));
  Next();
  EXPECT_EQ(body_.bytes.size(), 3000u) << "the others were refused for themselves";
}

TEST_F(ConnectionTest, ABodyThatNobodyNeedsIsThrownAway) {
  SetRoom([](const HttpRequest&) { return std::optional<BodyRoom>(); });
  Start();
  HttpSocket client(server_->address());
  client.Send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" +
              std::string(100000, 'b') + kGet);
  const auto exchange = Next();
  EXPECT_EQ(body_.bytes, "");
  EXPECT_TRUE(body_.status.ok());
  exchange->Respond({.body = "first"});
  EXPECT_EQ(client->ReadAnswer().body, "first");
  Next()->Respond({.body = "second"});
  EXPECT_EQ(client->ReadAnswer().body, "second");
}

TEST_F(ConnectionTest, TheRestOfALongBodyIsLeftUnreadWhileOtherRequestsAreServed) {
  constexpr size_t kLong = 100000;
  const CountedRoom room(10 * kLong);
  SetRoom(room.Giver());
  // The next bytes are read in years.
  Start({.body_timeout = kPatience, .long_input_bytes = 1, .long_input_bytes_per_second = 1e-3});
  HttpSocket client(server_->address());
  client.Send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
  client.Send(std::string(kLong, 'b'));
  EXPECT_TRUE(Eventually([&] { return room.used() > 0; }));
  const size_t used = room.used();
  EXPECT_LT(used, kLong);
  AnswerAtOnce();
  for (int i = 0; i < 3; ++i) {
    HttpSocket other(server_->address());
    other.Send(kGet);
    EXPECT_EQ(other->ReadAnswer().status, 200);
  }
  EXPECT_EQ(room.used(), used);
}

TEST_F(ConnectionTest, LongBodiesComeWholeAtTheirRate) {
  constexpr size_t kLong = 100000;
  Start({.long_input_bytes = 1000, .long_input_bytes_per_second = 1e6});
  HttpSocket client(server_->address());
  for (int i = 0; i < 2; ++i) {
    client.Send(absl::StrCat("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: ", kLong, "\r\n\r\n",
                             std::string(kLong, 'b')));
    const auto exchange = Next();
    EXPECT_EQ(body_.bytes.size(), kLong);
    exchange->Respond({.body = "ok"});
    EXPECT_EQ(client->ReadAnswer().body, "ok");
  }
}

TEST_F(ConnectionTest, ABodyThatGoesOnComingMayTakeItsTime) {
  Start({.body_timeout = absl::Seconds(1), .body_step_bytes = 10});
  HttpSocket client(server_->address());
  client.Send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n");
  for (int i = 0; i < 5; ++i) {
    absl::SleepFor(absl::Milliseconds(250));
    client.Send(std::string(10, 'b'));
  }
  Next();
  EXPECT_EQ(body_.bytes.size(), 50u) << "within more than the timeout";
}

TEST_F(ConnectionTest, ABodyOfWhichLessComesThanItsStepGetsATimeout) {
  Start({.body_timeout = absl::Milliseconds(300), .body_step_bytes = 1000});
  HttpSocket client(server_->address());
  client.Send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n");
  const bool refused = Eventually([&] {
    client.Send("b");
    return !answered().empty();
  });
  ASSERT_TRUE(refused);
  EXPECT_THAT(answered()[0], HasSubstr("/p 408"));
}

TEST_F(ConnectionTest, AnAnswerMayBeMadeAsItIsRead) {
  constexpr int kPieces = 100;
  constexpr size_t kPiece = 50000;
  Start();
  for (const char* version : {"HTTP/1.1", "HTTP/1.0"}) {
    HttpSocket client(server_->address(), /*receive_buffer=*/4096);
    client.Send(absl::StrCat("GET /a ", version, "\r\nHost: x\r\n\r\n"));
    const auto made = std::make_shared<std::atomic<int>>(0);
    const std::weak_ptr<std::atomic<int>> alive = made;
    HttpResponse answer{.body = "begin "};
    answer.more = [made] {
      const int piece = (*made)++;
      return piece < kPieces ? std::string(kPiece, static_cast<char>('a' + piece % 26)) : "";
    };
    Next()->Respond(std::move(answer));
    EXPECT_TRUE(Eventually([&] { return *made > 0; }));
    EXPECT_LT(*made, kPieces / 2) << "the rest is made when the client has read";
    const HttpAnswer read = client->ReadAnswer();
    EXPECT_TRUE(read.whole);
    EXPECT_EQ(read.body.size(), 6 + kPieces * kPiece);
    EXPECT_EQ(read.body.substr(0, 8), "begin aa");
    EXPECT_EQ(read.headers.contains("content-length"), false);
    if (absl::string_view(version) == "HTTP/1.0") continue;
    client.Send(kGet);
    Next()->Respond({.body = "next"});
    EXPECT_EQ(client->ReadAnswer().body, "next") << "the connection goes on";
  }
}

TEST_F(ConnectionTest, WhatMakesAnAnswerGoesWithItsClient) {
  Start();
  const auto made = std::make_shared<int>(0);
  HttpResponse answer;
  answer.more = [made] { return std::string(50000, 'a'); };  // without an end
  HttpSocket client(server_->address(), /*receive_buffer=*/4096);
  client.Send(kGet);
  Next()->Respond(std::move(answer));
  EXPECT_EQ(client->ReadHead().status, 200);
  client.Reset();
  EXPECT_TRUE(Eventually([&] { return made.use_count() == 1; }));
}

TEST_F(ConnectionTest, ABodyMayHaveARestOfSharedParts) {
  Start();
  absl::Cord rest(std::string(300000, 'b'));
  rest.Append(absl::Cord(rest));
  for (const absl::string_view version : {"1.1", "1.0"}) {
    HttpSocket client(server_->address());
    client.Send(absl::StrCat("GET /a HTTP/", version, "\r\nHost: localhost\r\n\r\n"));
    HttpResponse answer{.body = "a"};
    answer.rest = rest;
    Next()->Respond(std::move(answer));
    EXPECT_EQ(client->ReadAnswer().body, "a" + std::string(rest));
  }
}

TEST_F(ConnectionTest, LongEventsCountAsMuchAsTheirSharedPartsTake) {
  constexpr size_t kLong = 3000000;
  Start({.max_unread_bytes = 8000000});
  HttpSocket client(server_->address(), /*receive_buffer=*/4096);
  HttpSocket other(server_->address(), /*receive_buffer=*/4096);
  const absl::Cord once(std::string(kLong, 'a'));
  absl::Cord often;
  for (int i = 0; i < 4; ++i) often.Append(once);
  std::vector<std::shared_ptr<HttpExchange>> exchanges;
  std::vector<Taken> taken(2);
  for (size_t i = 0; i < 2; ++i) {
    (i == 0 ? client : other).Send(kGet);
    exchanges.push_back(Next());
    exchanges[i]->BeginEvents({});
    exchanges[i]->SendLong(often, taken[i].Teller());
    exchanges[i]->EndEvents();
  }
  for (HttpSocket* socket : {&other, &client}) {
    const HttpAnswer answer = (*socket)->ReadAnswer();
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.body.size(), 4 * kLong);
  }
  EXPECT_EQ(taken[0].Wait(), true);
  EXPECT_EQ(taken[1].Wait(), true);
}

TEST_F(ConnectionTest, LongAnswersThatATenantLeavesUnreadLeaveRoomToOthers) {
  constexpr size_t kLong = 3000000;
  Start({.max_unread_bytes = 10000000});
  std::vector<std::unique_ptr<HttpSocket>> clients;
  const auto status_for = [&](const std::string& tenant) {
    clients.push_back(std::make_unique<HttpSocket>(server_->address(), /*receive_buffer=*/4096));
    clients.back()->Send(kGet);
    const auto exchange = Next();
    exchange->CountFor(tenant);
    exchange->Respond({.body = std::string(kLong, 'a')});
    return clients.back()->client().ReadHead().status;
  };
  EXPECT_EQ(status_for("a"), 200);
  EXPECT_EQ(status_for("a"), 503) << "6 MB would be more than the 4 MB that stay free";
  EXPECT_EQ(status_for("b"), 200);
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return status_for("a") == 200; })) << "its client has left";
}

TEST_F(ConnectionTest, LongAnswersThatAreLeftUnreadAreBoundedTogether) {
  constexpr size_t kLong = 6000000;
  Start({.max_unread_bytes = 10000000});
  std::vector<std::unique_ptr<HttpSocket>> clients;
  const auto ask = [&](std::string body) {
    clients.push_back(std::make_unique<HttpSocket>(server_->address(), /*receive_buffer=*/4096));
    clients.back()->Send(kGet);
    Next()->Respond({.body = std::move(body)});
  };
  ask(std::string(kLong, 'a'));
  ask(std::string(kLong, 'b'));
  const HttpAnswer refused = clients.back()->client().ReadAnswer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("unread"));
  ask("short");
  EXPECT_EQ(clients.back()->client().ReadAnswer().body, "short");
  EXPECT_EQ(clients.front()->client().ReadAnswer().body.size(), kLong);
  ask(std::string(kLong, 'c'));
  EXPECT_EQ(clients.back()->client().ReadAnswer().body.size(), kLong) << "there is room again";
  ask(std::string(kLong, 'd'));
  clients.back()->Reset();
  ask(std::string(kLong, 'e'));
  EXPECT_EQ(clients.back()->client().ReadAnswer().body.size(), kLong) << "the client has left";
}

}  // namespace
}  // namespace baton
