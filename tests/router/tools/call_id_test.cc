#include "router/tools/call_id.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

bool HasLettersAndDigitsAlone(const std::string& id) {
  return std::all_of(id.begin(), id.end(), [](char byte) {
    return absl::ascii_isalnum(static_cast<unsigned char>(byte));
  });
}

TEST(CallId, IsLettersAndDigitsThatFollowFromTheArgumentsAlone) {
  const std::string id = CallId(7, 1, 2);
  EXPECT_EQ(id.size(), kCallIdBytes);
  EXPECT_TRUE(HasLettersAndDigitsAlone(id)) << id;
  EXPECT_EQ(CallId(7, 1, 2), id);
}

TEST(CallId, DiffersWithEachOfItsArguments) {
  std::set<std::string> ids;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (const int choice : {0, 1, 15}) {
      for (const int call : {0, 1, 15}) ids.insert(CallId(seed, choice, call));
    }
  }
  EXPECT_EQ(ids.size(), 27u);
}

TEST(ShortId, HasTheLengthThatATemplateWants) {
  for (const size_t bytes : {size_t{1}, size_t{9}, size_t{32}}) {
    const std::string id = ShortId("call_of a client's own #7", bytes);
    EXPECT_EQ(id.size(), bytes);
    EXPECT_TRUE(HasLettersAndDigitsAlone(id)) << id;
  }
  EXPECT_EQ(ShortId("a", 9), ShortId("a", 9));
  EXPECT_NE(ShortId("a", 9), ShortId("b", 9));
}

}  // namespace
}  // namespace baton
