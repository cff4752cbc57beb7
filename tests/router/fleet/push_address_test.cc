#include "router/fleet/push_address.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The address, or the error's text.
std::string PushesGoTo(const WorkerAddresses& worker, const std::vector<std::string>& others = {}) {
  const auto address = FindPushAddress(worker, others);
  return address.ok() ? *address : std::string(address.status().message());
}

TEST(PushAddress, AnAddressOnTheHostThatTheRouterWasGivenCounts) {
  EXPECT_EQ(PushesGoTo({.target = "decode-1:50051", .advertised = "decode-1:50061"}),
            "decode-1:50061");
  EXPECT_EQ(PushesGoTo({.target = "decode-1:1", .advertised = "Decode-1.:2"}), "Decode-1.:2");
  EXPECT_EQ(PushesGoTo({.target = "10.0.0.5:50051", .advertised = "10.0.0.5:50061"}),
            "10.0.0.5:50061");
  EXPECT_EQ(PushesGoTo({.target = "ipv4:10.0.0.5:1", .advertised = "ipv4:10.0.0.5:2"}),
            "10.0.0.5:2");
  EXPECT_EQ(PushesGoTo({.target = "[2001:db8::5]:1", .advertised = "[2001:DB8:0::5]:2"}),
            "[2001:db8::5]:2");
}

TEST(PushAddress, AnAddressOnTheHostToWhichANameLedCounts) {
  EXPECT_EQ(PushesGoTo({.target = "decode:50051",
                        .connected = "ipv4:10.1.2.3:50051",
                        .advertised = "10.1.2.3:50051"}),
            "10.1.2.3:50051");
  EXPECT_EQ(PushesGoTo({.target = "decode:50051",
                        .connected = "ipv6:%5B2001:db8::5%5D:50051",
                        .advertised = "[2001:db8::5]:50051"}),
            "[2001:db8::5]:50051");
}

TEST(PushAddress, TheNameThatLedToThisWorkerAloneCounts) {
  const WorkerAddresses worker{.target = "10.1.2.3:50051",
                               .connected = "ipv4:10.1.2.3:50051",
                               .name = "dns:///decode-0.decode:50051",
                               .advertised = "decode-0.decode:50061"};
  EXPECT_EQ(PushesGoTo(worker), "decode-0.decode:50061");
  WorkerAddresses unnamed = worker;
  unnamed.name.clear();
  EXPECT_THAT(PushesGoTo(unnamed), HasSubstr("advertises the host 'decode-0.decode'"));
}

TEST(PushAddress, OnThisMachineAllLoopbackAddressesAreOneHost) {
  EXPECT_EQ(PushesGoTo({.target = "127.0.0.1:1", .advertised = "127.0.0.2:2"}), "127.0.0.2:2");
  EXPECT_EQ(PushesGoTo({.target = "localhost:1", .advertised = "[::1]:2"}), "[::1]:2");
  EXPECT_EQ(PushesGoTo({.target = "unix:/run/decode", .advertised = "127.0.0.1:2"}), "127.0.0.1:2");
  EXPECT_THAT(
      PushesGoTo(
          {.target = "10.0.0.5:1", .connected = "ipv4:10.0.0.5:1", .advertised = "localhost:2"}),
      HasSubstr("advertises the host 'localhost'"))
      << "the prefill worker would call its own machine";
}

TEST(PushAddress, WithoutAHostOfItsOwnItIsThatOfTheTarget) {
  EXPECT_EQ(PushesGoTo({.target = "decode-1:50051"}), "decode-1:50051");
  for (const char* all : {"0.0.0.0:50061", "[::]:50061", "0:50061"}) {
    EXPECT_EQ(PushesGoTo({.target = "decode-1:50051", .advertised = all}), "decode-1:50061") << all;
  }
  EXPECT_EQ(PushesGoTo({.target = "[2001:db8::5]:1", .advertised = "0.0.0.0:2"}),
            "[2001:db8::5]:2");
}

TEST(PushAddress, AnotherHostIsRefusedWithBothHostsAndTheRemedy) {
  EXPECT_THAT(
      PushesGoTo({.target = "decode-1:50051",
                  .connected = "ipv4:10.0.0.5:50051",
                  .advertised = "10.0.0.6:50051"}),
      AllOf(HasSubstr("advertises the host '10.0.0.6'"), HasSubstr("at 'decode-1' (10.0.0.5)"),
            HasSubstr("set the worker's --advertise to its own host"),
            HasSubstr("--advertised-host=10.0.0.6")));
  for (const char* foreign :
       {"decode-1.evil.example:1", "decode:1", "decode-11:1", "169.254.169.254:80", "127.0.0.1:22",
        "localhost:22", "[::ffff:10.0.0.6]:1", "[2001:db8::5]:1", "dns:///evil.example:1",
        "dns://10.0.0.9/decode-1:1"}) {
    EXPECT_THAT(PushesGoTo({.target = "decode-1:50051",
                            .connected = "ipv4:10.0.0.5:50051",
                            .advertised = foreign}),
                HasSubstr("advertises the host"))
        << foreign;
  }
}

TEST(PushAddress, ANumberIsPassedOnInItsUsualForm) {
  // The resolver of another program may take 010 for ten.
  EXPECT_EQ(PushesGoTo({.target = "8.0.0.5:1", .advertised = "010.0.0.5:2"}), "8.0.0.5:2");
  EXPECT_EQ(PushesGoTo({.target = "10.0.0.5:1", .advertised = "[::ffff:10.0.0.5]:2"}),
            "10.0.0.5:2");
}

TEST(PushAddress, TheOperatorMayAllowOtherHosts) {
  const std::vector<std::string> others = {"nat.example", "10.8.0.0/16", "2001:db8::7"};
  for (const char* allowed : {"nat.example:1", "10.8.255.1:1", "[2001:db8::7]:1"}) {
    EXPECT_EQ(PushesGoTo({.target = "decode-1:1", .advertised = allowed}, others), allowed);
  }
  for (const char* foreign : {"a.nat.example:1", "10.9.0.1:1", "[2001:db8::8]:1"}) {
    EXPECT_THAT(PushesGoTo({.target = "decode-1:1", .advertised = foreign}, others),
                HasSubstr("advertises the host"))
        << foreign;
  }
  EXPECT_EQ(PushesGoTo({.target = "decode-1:1", .advertised = "any.example:2"}, {"*"}),
            "any.example:2");
}

TEST(PushAddress, PatternsOfHostsAreChecked) {
  for (const char* good :
       {"*", "nat.example", "10.0.0.1", "10.0.0.0/8", "2001:db8::/32", "[::1]"}) {
    EXPECT_TRUE(CheckHostPattern(good).ok()) << good;
  }
  for (const char* wrong : {"", "host:80", "10.0.0.0/33", "a b", "*.example", "http://a"}) {
    EXPECT_THAT(std::string(CheckHostPattern(wrong).message()), HasSubstr("is not a host"))
        << wrong;
  }
}

TEST(PushAddress, AnAddressThatCannotBeDialledIsRefusedWhateverTheOperatorAllows) {
  for (const std::vector<std::string>& others :
       {std::vector<std::string>{}, std::vector<std::string>{"*"}}) {
    for (const char* all : {"0.0.0.0:50061", "[::]:50061"}) {
      EXPECT_THAT(PushesGoTo({.target = "unix:/run/decode", .advertised = all}, others),
                  AllOf(HasSubstr(all), HasSubstr("unix:/run/decode"), HasSubstr("--advertise")))
          << all;
    }
    EXPECT_THAT(PushesGoTo({.target = "unix:/run/decode"}, others),
                AllOf(HasSubstr("no address"), HasSubstr("--advertise")));
  }
}

TEST(PushAddress, AWorkerThatIsReachedByLoopbackMayAdvertiseAnAddressOfThisMachine) {
  // All of 127.0.0.0/8 is this machine's; what is an address of its own elsewhere is tested with
  // real interfaces (tests/integration/test_addresses.py).
  EXPECT_EQ(PushesGoTo({.target = "127.0.0.1:1", .advertised = "127.0.0.9:2"}), "127.0.0.9:2");
  EXPECT_THAT(PushesGoTo({.target = "127.0.0.1:1", .advertised = "192.0.2.9:2"}),
              HasSubstr("--advertised-host=192.0.2.9"));
}

TEST(PushAddress, WhereAWorkerRunsIsKnownByItsTargetAndItsConnection) {
  for (const WorkerAddresses& here :
       {WorkerAddresses{.target = "127.0.0.1:1"}, WorkerAddresses{.target = "unix:/run/prefill"},
        WorkerAddresses{.target = "localhost:1", .connected = "ipv6:%5B::1%5D:1"},
        WorkerAddresses{.target = "prefill-1:1"}}) {
    EXPECT_TRUE(RunsHere(here)) << here.target;
  }
  EXPECT_FALSE(RunsHere({.target = "192.0.2.9:1"}));
  EXPECT_FALSE(RunsHere({.target = "prefill-1:1", .connected = "ipv4:192.0.2.9:1"}));
  EXPECT_FALSE(RunsHere({.target = "prefill-1:1", .connected = "ipv6:%5B2001:db8::9%5D:1"}));
}

}  // namespace
}  // namespace baton
