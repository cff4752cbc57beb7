#include "common/net/metrics_server.h"

#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/address.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

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

TEST_F(MetricsServerTest, RefusesABodyBeyondItsLimit) {
  const auto answer =
      httplib::Client("127.0.0.1", port_).Post("/metrics", std::string(9 << 10, 'x'), "text/plain");
  if (answer) EXPECT_EQ(answer->status, 413);  // or the connection was closed on it
  EXPECT_TRUE(Get("/metrics"));
}

// Each keeps one of the four threads waiting for its request.
TEST_F(MetricsServerTest, ManySilentConnectionsDoNotStopIt) {
  std::vector<int> sockets;
  for (int i = 0; i < 3; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port_));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    sockets.push_back(fd);
  }
  EXPECT_TRUE(Get("/metrics"));
  for (const int fd : sockets) close(fd);
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
