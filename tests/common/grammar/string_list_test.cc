#include "common/grammar/string_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StringList, GivesBackTheStringsThatWereAppended) {
  std::string list;
  EXPECT_THAT(*ReadStrings(list), IsEmpty());
  const std::string long_text(70'000, 'x');
  for (const absl::string_view text : {absl::string_view("a\0b", 3), absl::string_view(),
                                       absl::string_view(long_text), absl::string_view("\xff")}) {
    AppendString(text, list);
  }
  EXPECT_THAT(*ReadStrings(list), ElementsAre(absl::string_view("a\0b", 3), "", long_text, "\xff"));
}

TEST(StringList, AListThatEndsWithinAStringIsAnError) {
  std::string list;
  AppendString("ab", list);
  AppendString("c", list);
  for (size_t bytes = 1; bytes < list.size(); ++bytes) {
    if (bytes == 6) continue;  // the end of the first string
    EXPECT_EQ(ReadStrings(list.substr(0, bytes)).status().code(), absl::StatusCode::kDataLoss)
        << bytes;
  }
  EXPECT_EQ(ReadStrings("\xff\xff\xff\xff").status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace baton
