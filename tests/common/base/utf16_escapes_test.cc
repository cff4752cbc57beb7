#include "common/base/utf16_escapes.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::StartsWith;

TEST(HalfPairFault, NamesTheFirstHalfThatStandsAlone) {
  for (const auto& [json, half] : {
           std::pair(R"({"a":"\ud83d"})", R"(\ud83d)"),
           std::pair(R"(["\uDE00\ud83d"])", R"(\uDE00)"),
           std::pair(R"("\ud83d\ude00\udfff")", R"(\udfff)"),
           std::pair(R"("\ud83d\ud83d\ude00")", R"(\ud83d)"),
           std::pair(R"("\ud83dx\ude00")", R"(\ud83d)"),
           std::pair(R"("\\\ud800")", R"(\ud800)"),
           std::pair(R"("\ud83d\u0041")", R"(\ud83d)"),
           std::pair(R"({"\udBFF":1})", R"(\udBFF)"),
       }) {
    EXPECT_THAT(HalfPairFault(json), StartsWith(std::string("has ") + half + ", ")) << json;
  }
}

TEST(HalfPairFault, IsNoneOfPairsAndOfWhatIsNoEscape) {
  for (const char* json : {"", R"("\ud83d\ude00")", R"("\uD800\uDFFF\ud7ff\ue000")", R"("\\ud83d")",
                           R"("\\\\udfff")", R"("\ud83)", "\\", R"("\u", "\n")"}) {
    EXPECT_EQ(HalfPairFault(json), "") << json;
  }
}

}  // namespace
}  // namespace baton
