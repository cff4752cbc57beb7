// How a server's process ends when something that it waits for does not return.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/common/net/test_process.h"

namespace baton {
namespace {

TEST(ServerProcess, WhatDoesNotReturnHoldsUpTheEndForABoundedTimeOnly) {
  TestProcess stuck(std::vector<std::string>{BATON_TEST_SERVER, "--listen=127.0.0.1:0",
                                             "--shutdown-timeout=100ms", "--hangs"});
  EXPECT_FALSE(stuck.ReadLine().empty()) << "it serves";
  stuck.Signal(SIGTERM);
  EXPECT_EQ(stuck.Wait(), 128 + SIGALRM);
  EXPECT_THAT(stuck.ReadErrors(), testing::HasSubstr("ended by force"));
}

}  // namespace
}  // namespace baton
