#include "common/base/version.h"

#include <regex>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

// Peers compare it and banners print it: three numbers, and nothing of the build system's syntax.
TEST(Version, IsThreeNumbers) {
  EXPECT_TRUE(std::regex_match(Version(), std::regex(R"(\d+\.\d+\.\d+)"))) << Version();
  EXPECT_EQ(Version(), std::string(BATON_PROJECT_VERSION));
}

}  // namespace
}  // namespace baton
