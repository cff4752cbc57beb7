#include "tests/support/fault_proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using Direction = FaultProxy::Direction;
using Flow = LinkFaults::Flow;

constexpr int kPatienceMs = 10'000;  // how long a test waits before it fails
constexpr int kSilenceMs = 50;

// One end of a connection.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { Close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void Send(const std::string& text) {
    ASSERT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Receives `size` bytes, or fewer if the connection ends before.
  std::string Receive(size_t size) {
    std::string got(size, '\0');
    size_t at = 0;
    while (at < size && Readable(kPatienceMs)) {
      const ssize_t read = recv(fd_, got.data() + at, size - at, 0);
      if (read <= 0) break;
      at += static_cast<size_t>(read);
    }
    got.resize(at);
    return got;
  }
  bool Readable(int timeout_ms) const {
    pollfd poll_for{fd_, POLLIN, 0};
    return poll(&poll_for, 1, timeout_ms) > 0;
  }
  // How the connection ends: "end", "reset" or "nothing" if it does not end for kSilenceMs.
  std::string HowItEnds() const {
    char byte = 0;
    if (!Readable(kPatienceMs)) return "nothing";
    const ssize_t read = recv(fd_, &byte, 1, 0);
    return read == 0 ? "end" : read < 0 && errno == ECONNRESET ? "reset" : "nothing";
  }

 private:
  int fd_;
};

class FaultProxyTest : public ::testing::Test {
 protected:
  FaultProxyTest() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    EXPECT_EQ(bind(listener_, generic(), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(getsockname(listener_, generic(), &size), 0);
    auto proxy = FaultProxy::Start(ntohs(address_.sin_port), 1);
    EXPECT_TRUE(proxy.ok()) << proxy.status();
    proxy_ = *std::move(proxy);
  }
  ~FaultProxyTest() override { close(listener_); }

  std::unique_ptr<Socket> Dial() {
    address_.sin_port = htons(proxy_->port());
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(fd, generic(), sizeof(address_)), 0);
    return std::make_unique<Socket>(fd);
  }
  std::unique_ptr<Socket> Accept() {
    return std::make_unique<Socket>(accept(listener_, nullptr, nullptr));
  }
  void Connect() {
    client_ = Dial();
    server_ = Accept();
  }
  void SetBoth(const LinkFaults& faults) {
    proxy_->SetFaults(Direction::kUp, faults);
    proxy_->SetFaults(Direction::kDown, faults);
  }
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_in address_{};
  const int listener_;
  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<Socket> client_, server_;
};

TEST_F(FaultProxyTest, CarriesBytesBothWaysAndTheEndOfEach) {
  Connect();
  client_->Send("question");
  EXPECT_EQ(server_->Receive(8), "question");
  server_->Send("answer");
  server_->Close();
  EXPECT_EQ(client_->Receive(100), "answer");
  EXPECT_EQ(client_->HowItEnds(), "end");
}

TEST_F(FaultProxyTest, CarriesMegabytesUnchangedThroughDelayJitterAndRate) {
  Connect();
  SetBoth({.delay = absl::Milliseconds(10),
           .jitter = absl::Milliseconds(10),
           .bytes_per_second = 40e6});
  std::string sent(size_t{4} << 20, ' ');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 % 251);
  std::thread sender([&] { client_->Send(sent); });
  EXPECT_TRUE(server_->Receive(sent.size()) == sent);
  sender.join();
  EXPECT_EQ(proxy_->stats().bytes_up, sent.size());
}

TEST_F(FaultProxyTest, ASwallowedDirectionIsSilentAndTheOtherGoesOn) {
  for (const Direction direction : {Direction::kUp, Direction::kDown}) {
    Connect();
    proxy_->SetFaults(direction, {.flow = Flow::kSwallow});
    Socket& from = direction == Direction::kUp ? *client_ : *server_;
    Socket& to = direction == Direction::kUp ? *server_ : *client_;
    from.Send("lost");
    EXPECT_FALSE(to.Readable(kSilenceMs));
    to.Send("heard");
    EXPECT_EQ(from.Receive(5), "heard");
    proxy_->Heal();
    EXPECT_EQ(to.HowItEnds(), "reset");
    EXPECT_EQ(from.HowItEnds(), "reset");
  }
  EXPECT_EQ(proxy_->stats().swallowed, 8u);
}

TEST_F(FaultProxyTest, WhoEndsBehindAHalfOpenConnectionIsNotHeardOf) {
  for (const Flow flow : {Flow::kSwallow, Flow::kStall}) {
    Connect();
    SetBoth({.flow = flow});
    client_->Close();
    EXPECT_FALSE(server_->Readable(kSilenceMs));
    server_->Send("into the void");
    EXPECT_FALSE(server_->Readable(kSilenceMs));
    proxy_->Heal();
    EXPECT_NE(server_->HowItEnds(), "nothing");
  }
}

TEST_F(FaultProxyTest, AStalledConnectionGoesOnWhenItIsHealed) {
  Connect();
  SetBoth({.flow = Flow::kStall});
  client_->Send("late");
  EXPECT_FALSE(server_->Readable(kSilenceMs));
  proxy_->Heal();
  EXPECT_EQ(server_->Receive(4), "late");
}

TEST_F(FaultProxyTest, CutsEveryConnectionAndTakesNewOnes) {
  for (const bool reset : {false, true}) {
    Connect();
    client_->Send("x");
    EXPECT_EQ(server_->Receive(1), "x");
    proxy_->Cut(reset);
    EXPECT_EQ(client_->HowItEnds(), reset ? "reset" : "end");
    EXPECT_EQ(server_->HowItEnds(), reset ? "reset" : "end");
  }
  Connect();
  client_->Send("again");
  EXPECT_EQ(server_->Receive(5), "again");
}

TEST_F(FaultProxyTest, RefusesNewConnectionsOnlyWhileItIsToldTo) {
  proxy_->SetRefuse(true);
  EXPECT_EQ(Dial()->HowItEnds(), "reset");
  proxy_->Heal();
  Connect();
  client_->Send("now");
  EXPECT_EQ(server_->Receive(3), "now");
}

TEST_F(FaultProxyTest, AResetReachesBothSides) {
  Connect();
  proxy_->SetFaults(Direction::kUp, {.resets_per_mib = 1e6});  // one within a few bytes
  client_->Send(std::string(1000, 'x'));
  EXPECT_EQ(client_->HowItEnds(), "reset");
  EXPECT_EQ(server_->HowItEnds(), "reset");
  EXPECT_EQ(proxy_->stats().resets, 1u);
}

TEST_F(FaultProxyTest, AnEndIsPassedOnAsAReset) {
  Connect();
  server_->Send("unread");
  client_->Readable(kPatienceMs);
  client_->Close();  // with unread bytes: the kernel resets
  EXPECT_NE(server_->HowItEnds(), "nothing");
  while (proxy_->stats().open > 0) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(FaultProxyTest, FlipsAreCounted) {
  Connect();
  proxy_->SetFaults(Direction::kUp, {.flip_at = 2});
  client_->Send("abcd");
  const std::string got = server_->Receive(4);
  EXPECT_EQ(got.substr(0, 2) + got.substr(3), "abd");
  EXPECT_NE(got[2], 'c');
  EXPECT_EQ(proxy_->stats().flips, 1u);
}

}  // namespace
}  // namespace baton
