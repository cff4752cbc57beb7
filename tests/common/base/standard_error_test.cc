#include "common/base/standard_error.h"

#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/terminal_text.h"
#include "tests/support/pseudo_terminal.h"

namespace baton {
namespace {

TEST(WriteErrorLine, IsOneBoundedLineWhateverTheMessage) {
  testing::internal::CaptureStderr();
  WriteErrorLine("baton run", "a\r\x1b[2K\nError: forged\u009b2J");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "baton run: a\\u000d\\u001b[2K\\u000aError: forged\\u009b2J\n");
  testing::internal::CaptureStderr();
  WriteErrorLine("p", std::string(60 << 20, 'x'));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "p: " + std::string(kMaxShownLineBytes, 'x') + "...\n");
}

TEST(WriteErrorLine, IsTheSameOnATerminal) {
  EXPECT_EQ(ShownOnTerminal(STDERR_FILENO, [] { WriteErrorLine("p", "\x1b[2J\n\u00fc"); }),
            "p: \\u001b[2J\\u000a\u00fc\n");
}

TEST(WriteNotice, KeepsLinesAndEscapesTheRest) {
  testing::internal::CaptureStderr();
  WriteNotice("model  \x1b[2Jx\n  device\tcpu\n>>> ");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "model  \\u001b[2Jx\n  device\tcpu\n>>> ");
}

}  // namespace
}  // namespace baton
