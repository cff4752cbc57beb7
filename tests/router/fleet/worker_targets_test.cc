#include "router/fleet/worker_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "tests/router/fleet/played_dns.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const absl::Time kStart = absl::UnixEpoch();

WorkerTarget Prefill(const std::string& address) { return {WORKER_ROLE_PREFILL, address}; }
WorkerTarget Decode(const std::string& address) { return {WORKER_ROLE_DECODE, address}; }

TEST(WorkerTargets, TheFileHasALineForEachWorker) {
  const auto targets =
      ParseWorkersFile("f", "# all\nprefill a:1\n\n  decode\tb:2 # here\r\ndecode [::1]:3");
  ASSERT_TRUE(targets.ok()) << targets.status();
  EXPECT_THAT(*targets, ElementsAre(Prefill("a:1"), Decode("b:2"), Decode("[::1]:3")));
}

TEST(WorkerTargets, ErrorsInTheFileNameTheLine) {
  for (const std::string line : {"prefill", "prefill a:1 b", "router a:1", "decode nowhere"}) {
    const auto targets = ParseWorkersFile("workers", "prefill a:1\n" + line + "\n");
    ASSERT_FALSE(targets.ok()) << line;
    EXPECT_THAT(std::string(targets.status().message()), HasSubstr("workers:2:"));
  }
}

TEST(WorkerTargets, TheFileTakesTheFormOfAddressesThatServersPrint) {
  const auto targets = ParseWorkersFile("workers", "prefill grpc://a:1\ndecode b:1\n");
  ASSERT_TRUE(targets.ok()) << targets.status();
  EXPECT_THAT(*targets, ElementsAre(Prefill("a:1"), Decode("b:1")));
}

TEST(WorkerTargets, ResolvesNamesAndListsEachTargetOnce) {
  TargetLookup lookup({{"dns:///127.0.0.1:7", "127.0.0.1:7", "b:1"}, {"b:1"}, ""});
  lookup.Ask(kStart);
  EXPECT_THAT(lookup.Found(kStart).targets,
              ElementsAre(Prefill("127.0.0.1:7"), Prefill("b:1"), Decode("b:1")));
}

TEST(WorkerTargets, AFileThatBreaksKeepsWhatWasKnown) {
  const std::string path = testing::TempDir() + "/baton_worker_targets";
  TargetLookup lookup({{}, {}, path});
  const auto now = [&lookup] {
    lookup.Ask(kStart);
    return lookup.Found(kStart).targets;
  };
  std::ofstream(path) << "prefill a:1\n";
  EXPECT_THAT(now(), ElementsAre(Prefill("a:1")));
  std::ofstream(path) << "nonsense\n";
  EXPECT_THAT(now(), ElementsAre(Prefill("a:1")));
  std::remove(path.c_str());
  EXPECT_THAT(now(), ElementsAre(Prefill("a:1")));
  std::ofstream(path) << "decode b:1\n";
  EXPECT_THAT(now(), ElementsAre(Decode("b:1")));
}

class NamesTest : public testing::Test {
 protected:
  TargetLookup Lookup(WorkerSources sources) const {
    return TargetLookup(std::move(sources), dns_.LookUp());
  }
  // Asks, waits for `answers` more answers, and returns what is known then.
  static FoundTargets Ask(TargetLookup& lookup, int answers, absl::Time now = kStart) {
    const uint64_t all = lookup.answers() + static_cast<uint64_t>(answers);
    lookup.Ask(now);
    while (lookup.answers() < all) std::this_thread::yield();
    return lookup.Found(now);
  }
  static std::string LogOf(const std::function<void()>& work) {
    testing::internal::CaptureStderr();
    work();
    return testing::internal::GetCapturedStderr();
  }

  PlayedDns dns_;
};

HostAddresses At(const std::vector<std::string>& addresses) { return addresses; }

TEST_F(NamesTest, WhatIsKnownDoesNotWaitForANameThatNobodyAnswers) {
  const std::string path = testing::TempDir() + "/baton_worker_targets_silent";
  std::ofstream(path) << "prefill 10.0.0.1:1\ndecode dns:///silent:1\n";
  TargetLookup lookup = Lookup({{"dns:///silent:2"}, {"d:1", "dns:///known:3"}, path});
  dns_.Answer("known", At({"10.0.0.3", "2001:db8::3"}));
  EXPECT_THAT(Ask(lookup, 1).targets, ElementsAre(Prefill("10.0.0.1:1"), Decode("10.0.0.3:3"),
                                                  Decode("[2001:db8::3]:3"), Decode("d:1")));
  const std::string log = LogOf([&] { lookup.Found(kStart + absl::Seconds(6)); });
  EXPECT_THAT(log, HasSubstr("workers: dns:///silent:2: Temporary failure in name resolution; "
                             "keeping what was known"));
}

TEST_F(NamesTest, ANameThatFailsKeepsItsAddresses) {
  TargetLookup lookup = Lookup({{}, {"dns:///d:1"}, ""});
  dns_.Answer("d", At({"10.0.0.1"}));
  EXPECT_THAT(Ask(lookup, 1).targets, ElementsAre(Decode("10.0.0.1:1")));
  dns_.Answer("d", absl::UnavailableError("it fails"));
  const FoundTargets found = Ask(lookup, 1, kStart + absl::Hours(1));
  EXPECT_THAT(found.targets, ElementsAre(Decode("10.0.0.1:1")));
  EXPECT_FALSE(found.names.at(Decode("10.0.0.1:1")).vanished);
}

TEST_F(NamesTest, ANameThatVanishesIsRememberedForAMinute) {
  TargetLookup lookup = Lookup({{}, {"dns:///d:1"}, ""});
  dns_.Answer("d", At({"10.0.0.1"}));
  EXPECT_FALSE(Ask(lookup, 1).names.at(Decode("10.0.0.1:1")).vanished);
  dns_.Answer("d", absl::NotFoundError("no such host"));
  FoundTargets found;
  EXPECT_THAT(LogOf([&] { found = Ask(lookup, 1); }),
              HasSubstr("workers: dns:///d:1: no such host; its workers stay for 1m"));
  EXPECT_THAT(found.targets, ElementsAre());
  EXPECT_TRUE(found.names.at(Decode("10.0.0.1:1")).vanished);
  EXPECT_EQ(LogOf([&] { found = Ask(lookup, 1, kStart + absl::Seconds(59)); }), "");
  EXPECT_EQ(found.names.size(), 1u);
  dns_.Answer("d", absl::UnavailableError("it fails"));
  found = Ask(lookup, 1, kStart + absl::Seconds(59));
  EXPECT_TRUE(found.targets.empty() && found.names.at(Decode("10.0.0.1:1")).vanished);
  dns_.Answer("d", absl::NotFoundError("no such host"));
  EXPECT_THAT(LogOf([&] { found = Ask(lookup, 1, kStart + absl::Seconds(60)); }),
              HasSubstr("workers: dns:///d:1: no such host; it leads to no worker"));
  EXPECT_THAT(found.names, IsEmpty());
  dns_.Answer("d", At({"10.0.0.2"}));
  EXPECT_THAT(LogOf([&] { found = Ask(lookup, 1, kStart + absl::Seconds(62)); }),
              HasSubstr("workers: dns:///d:1: found again"));
  EXPECT_THAT(found.targets, ElementsAre(Decode("10.0.0.2:1")));
}

TEST_F(NamesTest, AProblemIsLoggedOnceAndAgainAfterFiveMinutes) {
  TargetLookup lookup = Lookup({{"dns:///p:1"}, {}, ""});
  dns_.Answer("p", absl::NotFoundError("no such host"));
  const auto log = [&](absl::Duration at) { return LogOf([&] { Ask(lookup, 1, kStart + at); }); };
  EXPECT_THAT(log(absl::ZeroDuration()), HasSubstr("dns:///p:1: no such host; it leads to no"));
  EXPECT_EQ(log(absl::Minutes(4)), "");
  EXPECT_THAT(log(absl::Minutes(5)), HasSubstr("dns:///p:1: no such host"));
}

TEST_F(NamesTest, APlainNameIsOneTargetAndTheLogSaysOnceThatItHasSeveralAddresses) {
  TargetLookup lookup = Lookup({{}, {"d:1", "both:1"}, ""});
  dns_.Answer("d", At({"10.0.0.1", "10.0.0.2"}));
  dns_.Answer("both", At({"10.0.0.3", "::3"}));
  FoundTargets found;
  const std::string log = LogOf([&] { found = Ask(lookup, 2); });
  EXPECT_THAT(found.targets, ElementsAre(Decode("both:1"), Decode("d:1")));
  EXPECT_THAT(found.names.at(Decode("d:1")).addresses, ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(log, HasSubstr("workers: d:1 has 2 addresses, and one of them is used at a time; "
                             "write dns:///d:1 to use each"));
  EXPECT_THAT(log, Not(HasSubstr("both"))) << "one of each family";
  EXPECT_EQ(LogOf([&] { Ask(lookup, 2); }), "");
}

TEST_F(NamesTest, ATargetKnowsWhetherItIsAloneBehindItsName) {
  TargetLookup lookup = Lookup({{}, {"dns:///one:1", "dns:///two:1"}, ""});
  dns_.Answer("one", At({"10.0.0.1", "::1"}));
  dns_.Answer("two", At({"10.0.0.2", "10.0.0.3"}));
  const FoundTargets found = Ask(lookup, 2);
  EXPECT_TRUE(found.names.at(Decode("10.0.0.1:1")).alone);
  EXPECT_TRUE(found.names.at(Decode("[::1]:1")).alone);
  EXPECT_FALSE(found.names.at(Decode("10.0.0.2:1")).alone);
  EXPECT_EQ(found.names.at(Decode("10.0.0.2:1")).source, "dns:///two:1");
}

}  // namespace
}  // namespace baton
