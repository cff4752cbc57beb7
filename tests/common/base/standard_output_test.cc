#include "common/base/standard_output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/log.h"
#include "tests/support/pseudo_terminal.h"

namespace baton {
namespace {

TEST(WriteOutput, WritesEveryByteAtOnce) {
  const std::string text(300'000, 'x');
  testing::internal::CaptureStdout();
  WriteOutput(text);
  WriteOutput("");
  WriteOutput(std::string("a\0b", 3));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), text + std::string("a\0b", 3));
}

TEST(WriteOutput, EscapesOnATerminalAloneWhatATerminalInterprets) {
  const auto write = [] { WriteOutput("\x1b[2J\u009b \xf0\x9f\x98\x80\r\n"); };
  EXPECT_EQ(ShownOnTerminal(STDOUT_FILENO, write), "\\u001b[2J\\u009b \xf0\x9f\x98\x80\n");
  testing::internal::CaptureStdout();
  write();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\x1b[2J\u009b \xf0\x9f\x98\x80\r\n");
}

TEST(ClearTerminal, ClearsATerminalAndWritesNothingElsewhere) {
  EXPECT_EQ(ShownOnTerminal(STDOUT_FILENO, ClearTerminal), "\033[H\033[2J\033[3J");
  testing::internal::CaptureStdout();
  ClearTerminal();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(WriteOutput, EndsWithALineAndACodeOfItsOwnWhereTheDiskIsFull) {
  const auto write = [] {
    dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    WriteOutput("text");
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(kExitOutput),
              "^[^\n]*: cannot write to standard output: No space left on device\n$");
}

// Makes `fd` a pipe that nobody reads.
void CloseReaderOf(int fd) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) _exit(1);
  close(ends[0]);
  dup2(ends[1], fd);
}

TEST(WriteOutput, EndsSilentlyWhereNobodyReads) {
  const auto write = [](auto action) {
    CloseReaderOf(STDOUT_FILENO);
    signal(SIGPIPE, action);
    WriteOutput("text");
  };
  EXPECT_EXIT(write(SIG_DFL), testing::KilledBySignal(SIGPIPE), "^$");
  EXPECT_EXIT(write(SIG_IGN), testing::ExitedWithCode(kExitReaderGone), "^$");
}

TEST(IgnoreSigpipe, AProgramOutlivesTheReaderOfItsLog) {
  const auto log = [](bool ignored) {
    CloseReaderOf(STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    if (ignored) IgnoreSigpipe();
    for (int i = 0; i < 3; ++i) {
      LogInfo("line {}", i);
      std::fprintf(stderr, "line\n");
    }
    _exit(0);
  };
  EXPECT_EXIT(log(true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(log(false), testing::KilledBySignal(SIGPIPE), "");
}

TEST(IgnoreSigpipe, OutputThatNobodyReadsStillEndsTheProgramAsBefore) {
  const auto write = [](auto action) {
    CloseReaderOf(STDOUT_FILENO);
    signal(SIGPIPE, action);
    IgnoreSigpipe();
    WriteOutput("text");
  };
  EXPECT_EXIT(write(SIG_DFL), testing::KilledBySignal(SIGPIPE), "^$");
  EXPECT_EXIT(write(SIG_IGN), testing::ExitedWithCode(kExitReaderGone), "^$");
}

}  // namespace
}  // namespace baton
