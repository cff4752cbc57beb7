#include "common/speculation/speculation_mode.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(SpeculationMode, EachHasTheNameThatFlagsSpell) {
  EXPECT_THAT(
      SpeculationModes(),
      ElementsAre(Pair("auto", SpeculationMode::kAuto), Pair("ngram", SpeculationMode::kNgram),
                  Pair("draft", SpeculationMode::kDraft), Pair("none", SpeculationMode::kNone)));
}

}  // namespace
}  // namespace baton
