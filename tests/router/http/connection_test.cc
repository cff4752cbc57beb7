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

}  // namespace
}  // namespace baton
