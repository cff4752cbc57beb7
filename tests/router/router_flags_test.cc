#include "router/router_flags.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/certificates.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RouterFlagsTest : public ::testing::Test {
 protected:
  // The error's message; empty if there is none.
  std::string Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"baton-router", "--model=m.gguf"});
    FlagSet set("baton-router", "A test.");
    flags_.AddTo(set);
    absl::Status status = set.Parse(static_cast<int>(arguments.size()), arguments.data());
    if (status.ok()) status = flags_.Finish();
    return std::string(status.message());
  }

  bool NeedsIdentity(std::vector<const char*> arguments) {
    flags_ = RouterFlags();
    arguments.push_back("--decode=127.0.0.1:1");
    EXPECT_EQ(Parse(arguments), "");
    return flags_.router.needs_identity;
  }

  RouterFlags flags_;
};

TEST_F(RouterFlagsTest, WorkersAreNamedByEveryFormOfAnAddress) {
  EXPECT_EQ(Parse({"--insecure", "--prefill=grpc://a:1,dns:///b:2", "--decode=[::1]:3"}), "");
  EXPECT_THAT(flags_.router.workers.prefill, ElementsAre("a:1", "dns:///b:2"));
  EXPECT_THAT(flags_.router.workers.decode, ElementsAre("[::1]:3"));
}

TEST_F(RouterFlagsTest, WhatCannotBeAnAddressIsRefusedByFlag) {
  EXPECT_THAT(Parse({"--prefill=x", "--decode=c:3"}), HasSubstr("--prefill: 'x'"));
  EXPECT_THAT(Parse({"--prefill=a:1", "--decode=c:"}), HasSubstr("--decode: 'c:'"));
  EXPECT_THAT(Parse({"--decode=http://c:1"}), HasSubstr("the scheme 'http' is not known"));
}

TEST_F(RouterFlagsTest, AWorkerThatCouldNeverBeCalledIsRefusedByFlag) {
  for (const char* flag :
       {"--prefill=name:7001", "--decode=name:7001", "--decode=192.0.2.1:7001"}) {
    flags_ = RouterFlags();
    const std::string name = std::string(flag).substr(0, std::string(flag).find('='));
    EXPECT_THAT(Parse({"--decode=127.0.0.1:1", flag}),
                AllOf(HasSubstr(name + " "), HasSubstr(":7001 is beyond loopback"),
                      HasSubstr("--insecure")))
        << flag;
    flags_ = RouterFlags();
    EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--insecure", flag}), "") << flag;
  }
  flags_ = RouterFlags();
  EXPECT_THAT(Parse({"--insecure", "--prefill=name:0", "--decode=127.0.0.1:1"}),
              HasSubstr("--prefill name:0: cannot connect to port 0"));
  // What a name of DNS leads to is known later, and a socket is of this machine.
  flags_ = RouterFlags();
  EXPECT_EQ(Parse({"--prefill=dns:///name:7001", "--decode=unix:/run/decode.sock"}), "");
}

TEST_F(RouterFlagsTest, TheModelHasNamesAndAliases) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--served-model-name=a b", "--served-model-name=c",
                   "--model-alias=claude-*,gpt-*"}),
            "");
  EXPECT_THAT(flags_.names.served, ElementsAre("a", "b", "c"));
  EXPECT_THAT(flags_.names.aliases, ElementsAre("claude-*", "gpt-*"));
  EXPECT_THAT(Parse({"--decode=127.0.0.1:1", "--served-model-name=*"}), HasSubstr("--model-alias"));
}

TEST_F(RouterFlagsTest, TheAccessLogIsOffByDefaultAndHasTheFormOfTheLog) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1"}), "");
  EXPECT_FALSE(flags_.access_log.on());
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--access-log=stderr", "--log-format=json"}), "");
  EXPECT_TRUE(flags_.access_log.on());
  EXPECT_EQ(flags_.access_log.format, AccessFormat::kJson);
  EXPECT_THAT(Parse({"--decode=127.0.0.1:1", "--access-log=/nowhere/access.log"}),
              HasSubstr("--access-log /nowhere/access.log: No such file or directory"));
}

TEST_F(RouterFlagsTest, TheAdviceHasAnObjectiveThatCanBeMet) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--advice-utilisation=0.6",
                   "--advice-time-per-token=50ms", "--advice-window=10s", "--advice-workers=12"}),
            "");
  EXPECT_EQ(flags_.router.advice.utilisation, 0.6);
  EXPECT_EQ(flags_.router.advice.time_per_token, absl::Milliseconds(50));
  EXPECT_EQ(flags_.router.advice.window, absl::Seconds(10));
  EXPECT_EQ(flags_.router.advice.workers, 12u);
  for (const char* flag : {"--advice-utilisation=0", "--advice-utilisation=1.1",
                           "--advice-time-per-token=-1s", "--advice-window=0s"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find('='));
    EXPECT_THAT(Parse({"--decode=127.0.0.1:1", flag}), HasSubstr(name)) << flag;
  }
}

TEST_F(RouterFlagsTest, AModelsDigestHas64Digits) {
  EXPECT_THAT(Parse({"--decode=127.0.0.1:1", "--model-sha256=12"}),
              HasSubstr("--model-sha256: '12'"));
  const std::string flag = "--model-sha256=" + std::string(64, 'A');
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", flag.c_str()}), "");
}

TEST_F(RouterFlagsTest, ClientsNeedAnIdentityWithKeysAndWhereTheRouterIsReachedFromOutside) {
  const TestAuthority authority("mesh");
  const TestCertificate own = authority.IssueRole("router/a");
  const std::string certificate = "--tls-cert=" + WriteTestFile("router.pem", own.pem);
  const std::string key = "--tls-key=" + WriteTestFile("router.key", own.key_pem);
  const std::string ca = "--tls-ca=" + WriteTestFile("mesh.pem", authority.pem());
  const std::vector<const char*> tls = {certificate.c_str(), key.c_str(), ca.c_str()};
  std::vector<const char*> beyond = {"--listen=0.0.0.0:1"};
  beyond.insert(beyond.end(), tls.begin(), tls.end());
  const std::vector<const char*> front = {"--front-socket=/run/front.sock", "--front-uid=1"};
  for (const std::vector<const char*>& flags :
       {std::vector<const char*>{"--api-keys=keys.toml"},
        {"--serve-key-file=keys.txt"},
        tls,
        beyond,
        front,
        std::vector<const char*>{"--insecure", "--serve-key-file=keys.txt"},
        std::vector<const char*>{"--insecure", "--api-keys=keys.toml"},
        std::vector<const char*>{"--listen=0.0.0.0:1", "--insecure", "--api-keys=keys.toml"},
        std::vector<const char*>{front[0], front[1], "--insecure", "--api-keys=keys.toml"}}) {
    EXPECT_TRUE(NeedsIdentity(flags)) << flags[0];
  }
  EXPECT_FALSE(NeedsIdentity({}));
  EXPECT_FALSE(NeedsIdentity({"--listen=0.0.0.0:1", "--insecure"}));
  EXPECT_FALSE(NeedsIdentity({"--insecure", front[0], front[1]}));
}

TEST_F(RouterFlagsTest, HostsOfRequestsWithoutAKeyAreTheNetworksOwnOnlyIfEverybodyIsServed) {
  const auto trusted = [this](std::vector<const char*> arguments) {
    NeedsIdentity(std::move(arguments));
    return flags_.router.http_hosts.trusted_network;
  };
  EXPECT_FALSE(trusted({}));
  EXPECT_FALSE(trusted({"--api-keys=keys.toml"}));
  EXPECT_FALSE(trusted({"--insecure", "--api-keys=keys.toml"}));
  EXPECT_TRUE(trusted({"--insecure"}));
  char own[256] = {};
  ASSERT_EQ(gethostname(own, sizeof(own) - 1), 0);
  EXPECT_TRUE(IsAllowed(flags_.router.http_hosts, own)) << own;
}

TEST_F(RouterFlagsTest, MoreHostsAreNamedAndReadAtTheStart) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--http-allow-host=LLM.example.org,192.0.2.1",
                   "--http-allow-host=[2001:db8::1]"}),
            "");
  EXPECT_THAT(flags_.router.http_hosts.names,
              ElementsAre("llm.example.org", "192.0.2.1", "[2001:db8::1]"));
  for (const char* flag : {"--http-allow-host=a:8080", "--http-allow-host=*.example.org"}) {
    flags_ = RouterFlags();
    EXPECT_THAT(Parse({"--decode=127.0.0.1:1", flag}), HasSubstr("--http-allow-host '")) << flag;
  }
}

// A router whose certificate has no role, for its clients alone.
class PlainWorkersTest : public RouterFlagsTest {
 protected:
  // As Parse, with the flags of the certificate, --plain-workers and a decode worker on loopback.
  std::string ParseWith(std::vector<const char*> arguments) {
    flags_ = RouterFlags();
    arguments.insert(arguments.end(), {certificate_.c_str(), key_.c_str(), "--plain-workers",
                                       "--decode=127.0.0.1:1"});
    return Parse(arguments);
  }

  const TestAuthority authority_{"public"};
  const TestCertificate own_ = authority_.Issue({});
  const std::string certificate_ = "--tls-cert=" + WriteTestFile("door.pem", own_.pem);
  const std::string key_ = "--tls-key=" + WriteTestFile("door.key", own_.key_pem);
  const std::string client_ca_ = "--tls-client-ca=" + WriteTestFile("c.pem", authority_.pem());
};

TEST_F(PlainWorkersTest, TheCertificateIsForClientsAloneWhoShowAKeyOrACertificate) {
  for (const char* way : {"--api-keys=keys.toml", client_ca_.c_str()}) {
    EXPECT_EQ(ParseWith({way, "--listen=0.0.0.0:1", "--http-listen=0.0.0.0:2"}), "") << way;
    EXPECT_TRUE(flags_.server.tls.for_clients_only);
    EXPECT_TRUE(flags_.router.plain_workers);
    EXPECT_TRUE(flags_.router.needs_identity);
    EXPECT_EQ(flags_.server.tls.certificate_optional, way != client_ca_.c_str());
  }
  EXPECT_THAT(ParseWith({}), AllOf(HasSubstr("--api-keys"), HasSubstr("--tls-client-ca")));
}

TEST_F(PlainWorkersTest, WorkersAreOnLoopbackAndNamedByFlags) {
  const char* const keys = "--api-keys=keys.toml";
  EXPECT_EQ(ParseWith({keys, "--prefill=localhost:1,[::1]:2"}), "");
  for (const char* worker : {"--prefill=192.0.2.7:1", "--decode=dns:///workers:1"}) {
    EXPECT_THAT(ParseWith({keys, worker}), HasSubstr("--plain-workers allows loopback only"))
        << worker;
  }
  EXPECT_THAT(ParseWith({keys, "--workers-file=workers"}),
              HasSubstr("--plain-workers contradicts --workers-file"));
  EXPECT_THAT(ParseWith({keys, "--front-socket=/run/front.sock", "--front-uid=1"}),
              HasSubstr("--plain-workers contradicts --front-socket"));
}

TEST_F(PlainWorkersTest, WithoutACertificateTheFlagHasNoEffectAndIsRefused) {
  EXPECT_THAT(Parse({"--plain-workers", "--decode=127.0.0.1:1"}),
              HasSubstr("--plain-workers has no effect without --tls-cert"));
}

TEST_F(PlainWorkersTest, WithoutTheFlagAnAuthorityIsNeeded) {
  EXPECT_THAT(
      Parse({certificate_.c_str(), key_.c_str(), "--decode=127.0.0.1:1", "--api-keys=keys.toml"}),
      HasSubstr("--tls-ca is missing"));
}

TEST_F(RouterFlagsTest, ClientsMayLeaveTheirCertificateOutWhereTheyMayHaveAKey) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1"}), "");
  EXPECT_FALSE(flags_.server.tls.certificate_optional);
  for (const char* keys : {"--api-keys=keys.toml", "--serve-key-file=keys.txt"}) {
    flags_ = RouterFlags();
    EXPECT_EQ(Parse({"--decode=127.0.0.1:1", keys}), "");
    EXPECT_TRUE(flags_.server.tls.certificate_optional) << keys;
  }
}

TEST_F(RouterFlagsTest, AKeyOnTheCommandLineIsAnErrorThatNamesTheFileThatIsTakenHere) {
  const std::string error = Parse({"--decode=127.0.0.1:1", "--api-key=hunter2hunter2"});
  EXPECT_THAT(error, HasSubstr("--serve-key-file FILE"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("hunter2")));
}

TEST_F(RouterFlagsTest, TheKeyFileOfOtherServersIsTaken) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--api-key-file=keys.txt"}), "");
  EXPECT_EQ(flags_.serve_key_file, "keys.txt");
  EXPECT_TRUE(flags_.has_keys());
}

TEST_F(RouterFlagsTest, HostAndPortAreTheAddressOfHttp) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--port=9000"}), "");
  EXPECT_EQ(flags_.http_listen, "127.0.0.1:9000");
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--host=::1", "--port", "0"}), "");
  EXPECT_EQ(flags_.http_listen, "[::1]:0");
  EXPECT_THAT(
      Parse({"--decode=127.0.0.1:1", "--host=0.0.0.0"}),
      AllOf(HasSubstr("--http-listen 0.0.0.0:8080 is beyond loopback"), HasSubstr("--insecure")))
      << "a host alone allows nothing";
}

TEST_F(RouterFlagsTest, AClientThatDoesNotReadHasTheSameTimeByHttp) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1"}), "");
  EXPECT_EQ(flags_.http.stall_timeout, flags_.router.runner.machine.stall_timeout);
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--stall-timeout=7s"}), "");
  EXPECT_EQ(flags_.http.stall_timeout, absl::Seconds(7));
}

TEST_F(RouterFlagsTest, HostsForKvCachesAreNamesAddressesOrRanges) {
  EXPECT_EQ(Parse({"--decode=127.0.0.1:1", "--advertised-host=nat.example,10.0.0.0/8",
                   "--advertised-host=2001:db8::1"}),
            "");
  EXPECT_THAT(flags_.router.advertised_hosts,
              ElementsAre("nat.example", "10.0.0.0/8", "2001:db8::1"));
  for (const char* flag : {"--advertised-host=10.0.0.0/33", "--advertised-host=host:80"}) {
    flags_ = RouterFlags();
    EXPECT_THAT(Parse({"--decode=127.0.0.1:1", flag}), HasSubstr("--advertised-host: '")) << flag;
  }
}

TEST_F(RouterFlagsTest, ARouterNeedsWorkers) {
  EXPECT_THAT(Parse({}), HasSubstr("--workers-file"));
}

}  // namespace
}  // namespace baton
