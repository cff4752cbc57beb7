#include "common/base/address.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(Address, ReadsWhatGrpcReads) {
  const struct {
    const char* text;
    const char* host;
    int port;
  } kCases[] = {{"127.0.0.1:0", "127.0.0.1", 0},
                {"[::1]:65535", "::1", 65535},
                {"decode.ns.svc:50051", "decode.ns.svc", 50051},
                {"dns:///decode:1", "decode", 1},
                {"ipv4:10.0.0.1:2", "10.0.0.1", 2},
                {"ipv6:[fe80::1]:3", "fe80::1", 3}};
  for (const auto& c : kCases) {
    const auto parsed = ParseHostPort(c.text);
    ASSERT_TRUE(parsed.ok()) << c.text << parsed.status();
    EXPECT_EQ(parsed->host, c.host);
    EXPECT_EQ(parsed->port, c.port);
    EXPECT_EQ(ParseHostPort(parsed->ToString())->host, c.host);
  }
}

TEST(Address, RefusesWhatIsNone) {
  for (const char* text : {"", "host", ":1", "host:", "host:x", "host:65536", "host:-1", "host: 1",
                           "::1:80", "[::1", "[::1]80", "[]:1", "host:+1", "host:999999999999"}) {
    EXPECT_FALSE(ParseHostPort(text).ok()) << text;
  }
}

TEST(Address, TakesTheFormThatServersPrint) {
  EXPECT_EQ(*NormalAddress("grpc://127.0.0.1:50051"), "127.0.0.1:50051");
  EXPECT_EQ(*NormalAddress("grpc://[::1]:1"), "[::1]:1");
  for (const char* text :
       {"host:1", "[::1]:1", "dns:///host:1", "ipv4:10.0.0.1:2", "unix:/tmp/s"}) {
    EXPECT_EQ(*NormalAddress(text), text);
  }
  for (const char* text : {"grpc://", "grpc://host", "grpc://grpc://host:1", "host"}) {
    EXPECT_FALSE(NormalAddress(text).ok()) << text;
  }
}

TEST(Address, RefusesAnUnknownSchemeByName) {
  for (const char* scheme : {"http", "grpcs", "tcp"}) {
    const std::string text = absl::StrCat(scheme, "://host:1");
    for (const absl::Status& status :
         {NormalAddress(text).status(), ParseHostPort(text).status()}) {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("the scheme '", scheme, "' is not known")));
    }
  }
}

TEST(Address, KnowsLoopbackAndTakesTheRestForOutside) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "unix:/tmp/s",
                           "ipv4:127.0.0.1:1", "ipv6:%5B::1%5D:1"}) {
    EXPECT_TRUE(IsLoopback(text)) << text;
  }
  for (const char* text :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "localhost.example:1", "127.0.0.1.example:1", "x",
        "dns:///prefill:1", "128.0.0.1:1", "ipv6:%5B2001:db8::1%5D:1"}) {
    EXPECT_FALSE(IsLoopback(text)) << text;
  }
}

TEST(Address, SaysWhoseFlagAndWhatToDoWhenAPortIsInUse) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string text = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));

  const absl::Status status = CheckListenable("--listen", text);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--listen " + text));
  EXPECT_THAT(std::string(status.message()), HasSubstr("in use"));
  close(fd);
  EXPECT_TRUE(CheckListenable("--listen", text).ok());
  EXPECT_THAT(std::string(CheckListenable("--listen", "203.0.113.7:1").message()),
              HasSubstr("no such address"));
}

}  // namespace
}  // namespace baton
