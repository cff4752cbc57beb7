#include "client/serve/reserved_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/address.h"
#include "common/net/acceptor.h"
#include "tests/common/net/test_sockets.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

struct BindOptions {
  const char* host = "127.0.0.1";
  bool reuse_address = false;
  bool reuse_port = false;
  bool as_another_user = false;  // REQUIRES: this process is root's
};

// The errno of another process that tries to listen on the port; 0: it could.
int TryToListen(const std::string& address, const BindOptions& options) {
  const uint16_t port = ParseHostPort(address)->port;
  const pid_t child = fork();
  if (child == 0) {
    if (options.as_another_user && setuid(65534) != 0) _exit(255);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int reuse_address = options.reuse_address, reuse_port = options.reuse_port;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse_address, sizeof(reuse_address));
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &reuse_port, sizeof(reuse_port));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    inet_pton(AF_INET, options.host, &name.sin_addr);
    const bool listens =
        bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 && listen(fd, 1) == 0;
    _exit(listens ? 0 : errno);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Nobody can listen on the port of `address` but sockets of this user with SO_REUSEPORT. The rule
// about the user is the kernel's, and another user is needed to see it: without root the test sees
// that SO_REUSEPORT is asked for, on which the rule rests.
void ExpectKept(const std::string& address) {
  for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
    for (const bool reuse_address : {false, true}) {
      EXPECT_EQ(TryToListen(address, {.host = host, .reuse_address = reuse_address}), EADDRINUSE);
      if (geteuid() != 0) continue;
      for (const bool reuse_port : {false, true}) {
        EXPECT_EQ(TryToListen(address, {.host = host,
                                        .reuse_address = reuse_address,
                                        .reuse_port = reuse_port,
                                        .as_another_user = true}),
                  EADDRINUSE)
            << host << " " << reuse_address << " " << reuse_port;
      }
    }
  }
}

TEST(ReservedPort, NobodyElseTakesThePortBeforeItsServerStartsNorWhenItStartsAgain) {
  auto port = ReservedPort::Take("--listen", "127.0.0.1:0");
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_TRUE(port->kept());
  for (int start = 0; start < 2; ++start) {
    ExpectKept(port->address());
    auto server = Acceptor::Listen("--listen", port->address(), {.reuse_port = true});
    ASSERT_TRUE(server.ok()) << server.status();
    (*server)->Start([](int /*listener*/, int connection) { close(connection); });
    for (int i = 0; i < 20; ++i) {
      TestSocket client;
      ASSERT_TRUE(client.Connect(port->address()));
      EXPECT_EQ(client.ReadAll(), "") << "the server has each connection";
    }
    ExpectKept(port->address());
  }
}

TEST(ReservedPort, RefusesConnectionsWhileNoServerListens) {
  const auto port = ReservedPort::Take("--listen", "127.0.0.1:0");
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_FALSE(TestSocket().Connect(port->address()));
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST(ReservedPort, IsFreeAgainAtItsEndAlsoAfterItWasMoved) {
  std::string address;
  {
    auto port = ReservedPort::Take("--listen", "127.0.0.1:0");
    ASSERT_TRUE(port.ok()) << port.status();
    address = port->address();
    ReservedPort moved = *std::move(port);
    EXPECT_EQ(TryToListen(address, {}), EADDRINUSE);
  }
  EXPECT_EQ(TryToListen(address, {}), 0);
}

TEST(ReservedPort, AGivenPortThatAServerOrAReservationHasIsAnErrorThatNamesTheFlag) {
  const auto server = Acceptor::Listen("--listen", "127.0.0.1:0", {});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  const auto message = [&address] {
    return std::string(ReservedPort::Take("--health-listen", address).status().message());
  };
  EXPECT_THAT(message(), HasSubstr("--health-listen " + address + ": the port is in use"));
  (*server)->Stop();
  const auto first = ReservedPort::Take("--listen", address);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->kept());
  EXPECT_THAT(message(), HasSubstr("--health-listen " + address));
}

TEST(ReservedPort, KeepsEachAddressOfItsHost) {
  const auto port = ReservedPort::Take("--listen", "localhost:0");
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_THAT(port->address(), HasSubstr("localhost:"));
  ExpectKept(port->address());
}

}  // namespace
}  // namespace baton
