#include "common/base/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ProgressLine, SaysTheShareThatIsDoneAndTheTimeItTook) {
  EXPECT_EQ(FormatProgress("loading", 0.25, absl::Milliseconds(1500)),
            "loading [#####---------------]  25%, 1.5 s");
  EXPECT_EQ(FormatProgress("loading", 2.0, absl::Seconds(12)),
            "loading [####################] 100%, 12.0 s");
  EXPECT_EQ(FormatProgress("loading", -1.0, absl::Seconds(2)),
            "loading [--------------------]   0%, 2.0 s");
}

TEST(ProgressLine, SaysTheTimeAloneWhereTheShareIsUnknown) {
  EXPECT_EQ(FormatProgress("measuring", std::nullopt, absl::Seconds(2)), "measuring, 2.0 s");
}

TEST(ProgressLine, ShowsNothingOfWhatIsShort) {
  testing::internal::CaptureStderr();
  {
    ProgressLine line("short");
    line.Tick(0.5);
    line.Tick();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace baton
