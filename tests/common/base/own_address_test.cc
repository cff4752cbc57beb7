#include "common/base/own_address.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

bool IsOwn(const char* text) { return IsOwnAddress(*ParseNumericAddress(text)); }

TEST(OwnAddress, LoopbackIsThisMachinesAndAnAddressOfNoMachineIsNot) {
  EXPECT_TRUE(IsOwn("127.0.0.1"));
  // Addresses for documentation (RFC 5737, RFC 3849).
  EXPECT_FALSE(IsOwn("192.0.2.9"));
  EXPECT_FALSE(IsOwn("2001:db8::9"));
}

TEST(OwnAddress, WhatStandsForAllAddressesIsNone) {
  EXPECT_FALSE(IsOwn("0.0.0.0"));
  EXPECT_FALSE(IsOwn("::"));
}

}  // namespace
}  // namespace baton
