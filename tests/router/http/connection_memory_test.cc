// How much memory connections take whose requests do not become whole, or wait for their answers.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/router/http/body_room.h"
#include "tests/router/http/http_fixture.h"
#include "tests/support/allocation_counter.h"

namespace baton {
namespace {

constexpr size_t kConnections = 64;
constexpr size_t kMostOfConnection = size_t{24} << 10;  // memory beyond the body

class ConnectionMemoryTest : public HttpFixture {
 protected:
  // Sends `bytes` over kConnections connections, and waits until the server has read as much of
  // each as it does.
  void SendAll(const std::string& bytes, const std::function<bool()>& read) {
    for (size_t i = 0; i < kConnections; ++i) {
      clients_.push_back(std::make_unique<HttpSocket>(server_->address()));
      EXPECT_TRUE(clients_.back()->Send(bytes));
    }
    EXPECT_TRUE(Eventually(read));
  }

  std::vector<std::unique_ptr<HttpSocket>> clients_;
};

TEST_F(ConnectionMemoryTest, HalfABodyTakesTheMemoryOfWhatIsKeptOfIt) {
  std::atomic<size_t> begun = 0;
  SetRoom([&begun](const HttpRequest&) {
    ++begun;
    return std::optional<BodyRoom>();  // the body is thrown away
  });
  Start();
  const size_t before = LiveBytes();
  SendAll(
      "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + std::string(200000, 'b'),
      [&] { return begun == kConnections; });
  EXPECT_LT(LiveBytes(), before + kConnections * kMostOfConnection);
}

TEST_F(ConnectionMemoryTest, HalfBodiesTakeNoMoreMemoryThanThereIsRoomFor) {
  const CountedRoom room(size_t{1} << 20);
  SetRoom(room.Giver());
  Start();
  const size_t before = LiveBytes();
  SendAll(
      "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + std::string(200000, 'b'),
      [&] { return handled() >= kConnections - 6; });
  EXPECT_LE(room.used(), size_t{1} << 20);
  EXPECT_LT(LiveBytes(), before + (size_t{2} << 20) + kConnections * kMostOfConnection);
}

TEST_F(ConnectionMemoryTest, ALongAnswerIsInMemoryOnce) {
  constexpr size_t kLong = size_t{8} << 20;
  Start();
  HttpSocket client(server_->address(), /*receive_buffer=*/4096);
  client.Send(kGet);
  const auto exchange = Next();
  std::string body(kLong, 'a');
  ResetPeakBytes();
  const size_t before = LiveBytes();
  exchange->Respond({.body = std::move(body)});
  EXPECT_EQ(client->ReadHead().status, 200);
  EXPECT_LT(PeakBytes(), before + kLong / 4);
}

TEST_F(ConnectionMemoryTest, WhatIsSentAheadOfAnAnswerIsLittle) {
  Start();
  const size_t before = LiveBytes();
  SendAll(kGet + std::string(60000, 'b'), [&] { return handled() == kConnections; });
  EXPECT_LT(LiveBytes(), before + kConnections * 2 * kMostOfConnection);
}

}  // namespace
}  // namespace baton
