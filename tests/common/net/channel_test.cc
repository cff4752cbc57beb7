#include "common/net/channel.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

#include "tests/common/net/test_service.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kVariables[] = {"http_proxy", "https_proxy", "grpc_proxy",   "all_proxy",
                                      "HTTP_PROXY", "HTTPS_PROXY", "GRPC_PROXY",   "ALL_PROXY",
                                      "no_proxy",   "NO_PROXY",    "no_grpc_proxy"};

// A port where a proxy would listen. It never answers.
class SilentProxy {
 public:
  SilentProxy() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~SilentProxy() { close(fd_); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  // Whether a connection waits to be accepted.
  bool called() const {
    pollfd listener{.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&listener, 1, 0) == 1;
  }
  // Waits for a connection, and returns the headers that come on it.
  std::string ReadRequest() const {
    constexpr int kPatienceMs = 30'000;
    std::string request;
    pollfd polled{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&polled, 1, kPatienceMs) != 1) return request;
    const int connection = accept(fd_, nullptr, nullptr);
    polled.fd = connection;
    while (request.find("\r\n\r\n") == std::string::npos && poll(&polled, 1, kPatienceMs) == 1) {
      char buffer[1024];
      const ssize_t n = recv(connection, buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      request.append(buffer, static_cast<size_t>(n));
    }
    close(connection);
    return request;
  }

 private:
  const int fd_;
  int port_ = 0;
};

// A server, and a proxy that never answers. Only the tests name it in the environment.
class ChannelProxyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const variable : kVariables) unsetenv(variable);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    for (const char* const variable : kVariables) unsetenv(variable);
  }

  static Credentials Plain() {
    TlsFlags plain;
    plain.insecure = true;
    return *Credentials::Create(plain);
  }
  static bool Connects(const std::string& address, const Credentials& credentials,
                       ChannelPurpose purpose) {
    const auto channel = MakeChannel(address, credentials, purpose);
    return channel.ok() && (*channel)->WaitForConnected(std::chrono::system_clock::now() +
                                                        std::chrono::seconds(30));
  }
  // What is logged while a client's channel to `address`, beyond loopback, begins to connect.
  static std::string LogOfClientTo(const std::string& address,
                                   std::shared_ptr<grpc::Channel>* channel = nullptr) {
    ::testing::internal::CaptureStderr();
    const auto made = MakeChannel(address, Plain(), ChannelPurpose::kClient);
    if (made.ok() && channel != nullptr) {
      *channel = *made;
      (*channel)->GetState(/*try_to_connect=*/true);
    }
    return ::testing::internal::GetCapturedStderr();
  }

  SilentProxy proxy_;
  TestService service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;  // the server's port
};

TEST_F(ChannelProxyTest, NoChannelToLoopbackUsesTheProxyOfTheEnvironment) {
  for (const char* const variable : kVariables) {
    if (!absl::StartsWithIgnoreCase(variable, "no_"))
      setenv(variable, absl::StrCat("http://", proxy_.address()).c_str(), 1);
  }
  for (const ChannelPurpose purpose : {ChannelPurpose::kClient, ChannelPurpose::kPrefill,
                                       ChannelPurpose::kDecode, ChannelPurpose::kBulk}) {
    const std::string address = absl::StrCat("127.0.0.1:", port_);
    EXPECT_TRUE(Connects(address, Credentials::Loopback(), purpose)) << static_cast<int>(purpose);
  }
  EXPECT_FALSE(proxy_.called());
}

TEST_F(ChannelProxyTest, NoChannelBetweenServersUsesTheProxyOfTheEnvironment) {
  setenv("http_proxy", absl::StrCat("http://", proxy_.address()).c_str(), 1);
  // The same server by an address that Baton does not take for loopback.
  const std::string address = absl::StrCat("ipv6:[::ffff:127.0.0.1]:", port_);
  for (const ChannelPurpose purpose :
       {ChannelPurpose::kPrefill, ChannelPurpose::kDecode, ChannelPurpose::kBulk}) {
    EXPECT_TRUE(Connects(address, Plain(), purpose)) << static_cast<int>(purpose);
  }
  EXPECT_FALSE(proxy_.called());
}

TEST_F(ChannelProxyTest, AClientsChannelToElsewhereUsesItAndSaysSoWithoutThePassword) {
  setenv("https_proxy", absl::StrCat("http://me:secret@", proxy_.address()).c_str(), 1);
  std::shared_ptr<grpc::Channel> channel;
  const std::string log = LogOfClientTo("router.invalid:50051", &channel);
  EXPECT_THAT(log, AllOf(HasSubstr("router.invalid:50051"), HasSubstr("https_proxy"),
                         HasSubstr("http://" + proxy_.address()), Not(HasSubstr("secret"))));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  const std::string request = proxy_.ReadRequest();
  EXPECT_THAT(request, StartsWith("CONNECT router.invalid:50051 HTTP/1."));
  EXPECT_THAT(request, HasSubstr("Basic bWU6c2VjcmV0")) << "me:secret";
}

TEST_F(ChannelProxyTest, NoProxyAndProxiesThatGrpcCannotUseLeaveAClientsChannelDirect) {
  setenv("http_proxy", absl::StrCat("http://", proxy_.address()).c_str(), 1);
  setenv("no_proxy", "10.0.0.0/8", 1);
  EXPECT_EQ(LogOfClientTo("10.1.2.3:50051"), "");
  setenv("http_proxy", "socks5://me:secret@10.9.9.9:1080", 1);
  unsetenv("no_proxy");
  EXPECT_THAT(LogOfClientTo("10.1.2.3:50051"),
              AllOf(HasSubstr("10.1.2.3:50051 directly"), HasSubstr("socks5://10.9.9.9:1080"),
                    Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace baton
