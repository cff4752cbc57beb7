#include "router/fleet/worker_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;
using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_THAT(lookup.Now(), ElementsAre(Prefill("127.0.0.1:7"), Prefill("b:1"), Decode("b:1")));
}

TEST(WorkerTargets, AFileThatBreaksKeepsWhatWasKnown) {
  const std::string path = testing::TempDir() + "/baton_worker_targets";
  std::ofstream(path) << "prefill a:1\n";
  TargetLookup lookup({{}, {}, path});
  EXPECT_THAT(lookup.Now(), ElementsAre(Prefill("a:1")));
  std::ofstream(path) << "nonsense\n";
  EXPECT_THAT(lookup.Now(), ElementsAre(Prefill("a:1")));
  std::remove(path.c_str());
  EXPECT_THAT(lookup.Now(), ElementsAre(Prefill("a:1")));
  std::ofstream(path) << "decode b:1\n";
  EXPECT_THAT(lookup.Now(), ElementsAre(Decode("b:1")));
}

}  // namespace
}  // namespace baton
