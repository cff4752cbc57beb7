#include "common/base/numeric_address.h"

#include <utility>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(NumericAddress, HasOneTextHoweverItIsWritten) {
  for (const auto& [text, usual] :
       {std::pair("10.0.0.5", "10.0.0.5"), std::pair("127.1", "127.0.0.1"),
        std::pair("0x7f000001", "127.0.0.1"), std::pair("010.0.0.5", "8.0.0.5"),
        std::pair("::ffff:10.0.0.5", "10.0.0.5"), std::pair("2001:DB8:0::1", "2001:db8::1")}) {
    const auto address = ParseNumericAddress(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(NumericText(*address), usual);
  }
  for (const char* name : {"localhost", "10.0.0.5.example", "", "fe80::1%eth0", "[::1]"}) {
    EXPECT_FALSE(ParseNumericAddress(name).has_value()) << name;
  }
}

TEST(NumericAddress, RangesContainWhatBeginsAsTheyDo) {
  const auto holds = [](const char* range, const char* address) {
    return ParseAddressRange(range)->Contains(*ParseNumericAddress(address));
  };
  EXPECT_TRUE(holds("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(holds("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(holds("10.1.2.3", "10.1.2.3"));
  EXPECT_FALSE(holds("10.1.2.3", "10.1.2.2"));
  EXPECT_TRUE(holds("[2001:db8::]/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(holds("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_FALSE(holds("0.0.0.0/0", "2001:db8::1"));
  for (const char* wrong :
       {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "2001:db8::/129", "name/8"}) {
    EXPECT_FALSE(ParseAddressRange(wrong).has_value()) << wrong;
  }
}

TEST(NumericAddress, WildcardsStandForAllAddresses) {
  for (const char* all : {"0.0.0.0", "::", "0"}) {
    EXPECT_TRUE(IsWildcard(*ParseNumericAddress(all))) << all;
  }
  EXPECT_FALSE(IsWildcard(*ParseNumericAddress("::1")));
}

}  // namespace
}  // namespace baton
