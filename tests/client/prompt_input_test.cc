#include "client/prompt_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// A pipe whose writing end stays open until Close.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Pipe() {
    Close();
    close(ends_[0]);
  }
  Pipe& Write(const std::string& text) {
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return *this;
  }
  Pipe& Close() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
    return *this;
  }
  int fd() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_{};
};

// The prompt, or the message of the error.
std::string Read(const PromptInput& input) {
  const auto prompt = ReadPrompt(input);
  if (!prompt.ok()) return std::string(prompt.status().message());
  return prompt->value_or("a chat");
}

TEST(ReadPrompt, PutsTheInputAfterTheArgumentAndAnEmptyLine) {
  Pipe pipe;
  pipe.Write("the text\n").Close();
  EXPECT_EQ(Read({.argument = "Summarise:", .fd = pipe.fd()}), "Summarise:\n\nthe text");
}

TEST(ReadPrompt, TakesEachOfTheTwoAlone) {
  Pipe pipe, empty;
  pipe.Write("the text\n\n").Close();
  empty.Close();
  EXPECT_EQ(Read({.fd = pipe.fd()}), "the text\n");
  EXPECT_EQ(Read({.argument = "Hello", .fd = empty.fd()}), "Hello");
}

TEST(ReadPrompt, RawInputKeepsEachByte) {
  Pipe pipe;
  pipe.Write(
          "\xef\xbb\xbf"
          "a\r\nb\r\n")
      .Close();
  EXPECT_EQ(Read({.raw = true, .fd = pipe.fd()}),
            "\xef\xbb\xbf"
            "a\r\nb\r\n");
}

TEST(ReadPrompt, AFileOfWindowsIsTheSamePrompt) {
  for (const char* text : {"Say hi.\n", "Say hi.\r\n", "\xef\xbb\xbfSay hi.\n",
                           "\xef\xbb\xbfSay hi.\r\n", "\xef\xbb\xbfSay hi."}) {
    Pipe pipe;
    pipe.Write(text).Close();
    EXPECT_EQ(Read({.fd = pipe.fd()}), "Say hi.");
  }
  Pipe lines, mark;
  lines.Write("one\r\n\r\ntwo\rthree\r\n\r\n").Close();
  EXPECT_EQ(Read({.argument = "Read:", .fd = lines.fd()}), "Read:\n\none\n\ntwo\rthree\n");
  mark.Write("\xef\xbb\xbf\r\n").Close();
  EXPECT_THAT(Read({.fd = mark.fd()}), HasSubstr("there is no prompt"));
}

TEST(ReadPrompt, ReadsAFileToo) {
  const std::string path = testing::TempDir() + "/prompt_input_test";
  std::ofstream(path) << "from a file\n";
  const int fd = open(path.c_str(), O_RDONLY);
  EXPECT_EQ(Read({.argument = "And", .fd = fd}), "And\n\nfrom a file");
  close(fd);
}

TEST(ReadPrompt, AnInputThatIsOpenButSilentIsLeftOutWithAWord) {
  Pipe silent;
  testing::internal::CaptureStderr();
  EXPECT_EQ(Read({.argument = "Hello",
                  .fd = silent.fd(),
                  .notice_after = absl::Milliseconds(1),
                  .leave_after = absl::Milliseconds(2)}),
            "Hello");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("waiting for standard input"));
  EXPECT_THAT(said, HasSubstr("nothing came from standard input for 2ms; going on without it"));
}

TEST(ReadPrompt, NothingIsNoPrompt) {
  Pipe empty, newline;
  empty.Close();
  newline.Write("\n").Close();
  EXPECT_THAT(Read({.fd = empty.fd()}), HasSubstr("there is no prompt"));
  EXPECT_THAT(Read({.fd = newline.fd()}), HasSubstr("there is no prompt"));
  EXPECT_THAT(Read({.argument = "", .fd = empty.fd()}), HasSubstr("there is no prompt"));
}

TEST(ReadPrompt, AnInputThatWasClosedIsEmpty) {
  const int closed = dup(STDERR_FILENO);
  close(closed);
  EXPECT_EQ(Read({.argument = "Hello", .fd = closed}), "Hello");
}

TEST(ReadPrompt, ATerminalIsLeftToAChat) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  EXPECT_EQ(Read({.fd = terminal}), "a chat");
  EXPECT_EQ(Read({.argument = "Hello", .fd = terminal}), "Hello");
  close(terminal);
}

TEST(ReadPrompt, WhatIsNotUtf8IsRefusedWithItsPlace) {
  Pipe pipe, empty;
  pipe.Write("ab\xff").Close();
  empty.Close();
  EXPECT_EQ(Read({.argument = "Hello", .fd = pipe.fd()}),
            "standard input is not UTF-8: byte 3 is 0xff");
  EXPECT_EQ(Read({.argument = "\xe2\x82", .fd = empty.fd()}),
            "the prompt is not UTF-8: byte 1 is 0xe2");
}

TEST(ReadPrompt, MoreThanAnyServerTakesIsRefused) {
  const std::string path = testing::TempDir() + "/prompt_input_test_long";
  std::ofstream(path) << std::string(kMaxPromptBytes + 1, 'x');
  const int fd = open(path.c_str(), O_RDONLY);
  EXPECT_THAT(Read({.fd = fd}), HasSubstr("more than 3145728 bytes"));
  close(fd);
}

}  // namespace
}  // namespace baton
