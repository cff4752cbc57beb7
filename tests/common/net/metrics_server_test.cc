#include "common/net/metrics_server.h"

#include <httplib.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/address.h"
#include "tests/common/net/test_sockets.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class MetricsServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = MetricsServer::Start("127.0.0.1:0",
                                       [this] { return absl::StrCat("page ", ++pages_, "\n"); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    port_ = ParseHostPort(server_->address())->port;
  }
  httplib::Result Get(const std::string& path) {
    return httplib::Client("127.0.0.1", port_).Get(path);
  }

  std::atomic<int> pages_ = 0;
  std::unique_ptr<MetricsServer> server_;
  int port_ = 0;
};

TEST_F(MetricsServerTest, MakesANewPageForEachAnswer) {
  EXPECT_NE(port_, 0);
  for (const std::string page : {"page 1\n", "page 2\n"}) {
    const auto answer = Get("/metrics");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, page);
    EXPECT_EQ(answer->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  }
}

TEST_F(MetricsServerTest, ServesNothingElse) {
  EXPECT_EQ(Get("/")->status, 404);
  EXPECT_EQ(Get("/metrics/x")->status, 404);
  EXPECT_EQ(httplib::Client("127.0.0.1", port_).Post("/metrics", "x", "text/plain")->status, 404);
  EXPECT_EQ(pages_, 0);
}

TEST_F(MetricsServerTest, OnLoopbackNoPageReadsThemByANameOfItsOwn) {
  const auto status = [this](const std::string& headers) {
    TestSocket socket;
    EXPECT_TRUE(socket.Connect(server_->address()));
    EXPECT_TRUE(socket.Send(absl::StrCat("GET /metrics HTTP/1.1\r\n", headers, "\r\n")));
    return socket.ReadAll().substr(9, 3);
  };
  for (const char* headers :
       {"", "Host: localhost\r\n", "hOST:LocalHost:9\r\n", "Host: 127.0.0.1:9100\r\n",
        "Host: [::1]:9100\r\n", "A: b\r\nHost:10.1.2.3:9100\r\n"}) {
    EXPECT_EQ(status(headers), "200") << headers;
  }
  for (const char* headers :
       {"Host: evil.example\r\n", "Host: evil.example:9100\r\n", "Host:\r\n",
        "Host: localhost.evil.example\r\n", "Host: 127.0.0.1:80:evil\r\n", "Host: 127.1\r\n",
        "Host: localhost\r\nHost: evil.example\r\n", "Host: localhost\nX: y\r\n"}) {
    EXPECT_EQ(status(headers), "403") << headers;
  }
}

TEST(MetricsServer, BeyondLoopbackOtherNamesAreAnsweredToo) {
  const auto server = MetricsServer::Start("0.0.0.0:0", [] { return std::string("page"); });
  ASSERT_TRUE(server.ok()) << server.status();
  TestSocket socket;
  ASSERT_TRUE(
      socket.Connect(absl::StrCat("127.0.0.1:", ParseHostPort((*server)->address())->port)));
  ASSERT_TRUE(socket.Send("GET /metrics HTTP/1.1\r\nHost: router.example\r\n\r\n"));
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, RefusesARequestBeyondItsLimit) {
  TestSocket socket;
  ASSERT_TRUE(socket.Connect(server_->address()));
  ASSERT_TRUE(socket.Send(absl::StrCat("GET /metrics HTTP/1.1\r\nx: ", std::string(9 << 10, 'x'))));
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(pages_, 0);
}

// Each has begun a request and does not end it.
TEST_F(MetricsServerTest, ManySlowConnectionsDoNotStopIt) {
  std::vector<TestSocket> slow(24);
  for (TestSocket& socket : slow) {
    ASSERT_TRUE(socket.Connect(server_->address()));
    ASSERT_TRUE(socket.Send("GET /metrics HTTP/1.1\r\nx: "));
  }
  EXPECT_TRUE(Get("/metrics"));
}

TEST_F(MetricsServerTest, OfTooManyConnectionsTheOldestIsClosed) {
  std::vector<TestSocket> silent(65);
  for (TestSocket& socket : silent) ASSERT_TRUE(socket.Connect(server_->address()));
  EXPECT_TRUE(silent.front().IsClosed());
  EXPECT_TRUE(Get("/metrics"));
}

TEST(MetricsServer, TheWholeRequestHasOneTimeLimit) {
  const auto server = MetricsServer::Start(
      "127.0.0.1:0", [] { return std::string(); }, absl::Milliseconds(100));
  ASSERT_TRUE(server.ok()) << server.status();
  TestSocket silent, slow;
  ASSERT_TRUE(silent.Connect((*server)->address()));
  EXPECT_TRUE(silent.IsClosed());
  ASSERT_TRUE(slow.Connect((*server)->address()));
  ASSERT_TRUE(slow.Send("GET /metrics HTTP/1.1\r\n"));
  // A byte now and then keeps it no longer. The request would be too long only after a minute.
  int bytes = 0;
  for (; bytes < 1000 && slow.Send("x"); ++bytes) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_LT(bytes, 1000);
}

TEST_F(MetricsServerTest, AnAddressInUseIsAnErrorThatNamesTheFlag) {
  const std::string address = server_->address();
  const auto second = MetricsServer::Start(address, [] { return std::string(); });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(absl::StrCat("cannot listen on --metrics-listen ", address,
                                     ": the port is in use")));
}

TEST_F(MetricsServerTest, GivesItsPortBackWhenItEnds) {
  const std::string address = server_->address();
  server_.reset();
  EXPECT_FALSE(Get("/metrics"));
  const auto second = MetricsServer::Start(address, [] { return std::string(); });
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->address(), address);
}

TEST(MetricsServer, RefusesWhatIsNoAddressToListenOn) {
  for (const std::string address : {"", "localhost", "unix:/tmp/x"}) {
    const auto server = MetricsServer::Start(address, [] { return std::string(); });
    ASSERT_FALSE(server.ok()) << address;
    EXPECT_THAT(std::string(server.status().message()), HasSubstr("--metrics-listen"));
  }
}

}  // namespace
}  // namespace baton
