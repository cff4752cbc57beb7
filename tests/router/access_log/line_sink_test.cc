#include "router/access_log/line_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/clock.h"
#include "common/base/standard_output.h"
#include "tests/support/full_disk.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class LineSinkTest : public ::testing::Test {
 protected:
  LineSinkTest() { IgnoreSigpipe(); }

  std::unique_ptr<LineSink> Open(const std::string& target) {
    auto sink = LineSink::Open(target);
    EXPECT_TRUE(sink.ok()) << sink.status();
    return sink.ok() ? *std::move(sink) : nullptr;
  }

  const TemporaryFolder folder_{"line_sink"};
  const std::string path_ = folder_.path() + "/access.log";
};

TEST_F(LineSinkTest, AppendsToAFileThatIsThere) {
  folder_.File("access.log", "before\n");
  const auto sink = Open(path_);
  EXPECT_TRUE(sink->Write("one\n").ok());
  EXPECT_TRUE(sink->Write("two\n").ok());
  EXPECT_EQ(Content(path_), "before\none\ntwo\n");
}

TEST_F(LineSinkTest, AFileThatWasMovedOrDeletedIsMadeAnewAndNoLineIsLost) {
  const auto sink = Open(path_);
  EXPECT_TRUE(sink->Write("one\n").ok());
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_TRUE(sink->Write("two\n").ok());
  folder_.File("other.log", "");
  std::filesystem::rename(folder_.path() + "/other.log", path_);  // as `create` of logrotate does
  EXPECT_TRUE(sink->Write("three\n").ok());
  EXPECT_EQ(Content(path_), "three\n");
  std::filesystem::remove(path_);
  EXPECT_TRUE(sink->Write("four\n").ok());
  EXPECT_EQ(Content(path_), "four\n");
  EXPECT_EQ(Content(path_ + ".1"), "one\n");
}

TEST_F(LineSinkTest, AMovedFileIsWrittenToWhereNoNewOneCanBeMade) {
  std::filesystem::create_directory(folder_.path() + "/logs");
  const auto sink = Open(folder_.path() + "/logs/access.log");
  EXPECT_TRUE(sink->Write("one\n").ok());
  std::filesystem::rename(folder_.path() + "/logs", folder_.path() + "/moved");
  EXPECT_TRUE(sink->Write("two\n").ok());
  EXPECT_EQ(Content(folder_.path() + "/moved/access.log"), "one\ntwo\n");
}

TEST_F(LineSinkTest, ADeletedFileIsNotWrittenToWhereNoNewOneCanBeMade) {
  const auto sink = Open(path_);
  EXPECT_TRUE(sink->Write("one\n").ok());
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(sink->Write("to nobody\n").ok()) << "it would be lost, and nobody would count it";
  std::filesystem::remove(path_);
  EXPECT_TRUE(sink->Write("two\n").ok());
  EXPECT_EQ(Content(path_), "two\n");
}

TEST_F(LineSinkTest, ALineThatAFullDiskHasCutIsWholeOnceThereIsRoom) {
  const auto sink = Open(path_);
  {
    const FullDisk full(10);
    EXPECT_TRUE(sink->Write("aaaaaa\n").ok());
    EXPECT_TRUE(sink->Write("bbbbbb\n").ok()) << "its rest is written later";
    EXPECT_EQ(Content(path_), "aaaaaa\nbbb");
    EXPECT_EQ(sink->Write("cccccc\n").code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(sink->Write("dddddd\n").message()),
                AllOf(HasSubstr("--access-log " + path_), HasSubstr("File too large")));
  }
  EXPECT_TRUE(sink->Write("eeeeee\n").ok());
  EXPECT_EQ(Content(path_), "aaaaaa\nbbbbbb\neeeeee\n");
}

TEST_F(LineSinkTest, APipeIsWaitedForNeitherWithoutAReaderNorWithOneThatDoesNotRead) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const auto sink = Open(path_);
  EXPECT_FALSE(sink->Write("nobody is there\n").ok());
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(sink->Write("read\n").ok());
  char bytes[16];
  EXPECT_EQ(read(reader, bytes, sizeof(bytes)), 5);

  const std::string line = std::string(1023, 'x') + "\n";
  int written = 0;
  while (sink->Write(line).ok()) ++written;
  EXPECT_GT(written, 3);
  const absl::Time begin = SteadyNow();
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(sink->Write(line).ok());
  EXPECT_LT(SteadyNow() - begin, LineSink::kPatience * 100) << "only the first waits";

  while (read(reader, bytes, sizeof(bytes)) > 0) {
  }
  EXPECT_TRUE(sink->Write("goes on\n").ok());
  close(reader);
  EXPECT_FALSE(sink->Write("nobody is there\n").ok());
  const int next = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_TRUE(sink->Write("next\n").ok());
  EXPECT_EQ(read(next, bytes, sizeof(bytes)), 5);
  close(next);
}

TEST_F(LineSinkTest, LinesToStandardErrorLeaveHalfOfAPipeToTheOrdinaryLog) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const int room = fcntl(ends[1], F_GETPIPE_SZ);
  const int stderr_before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  const std::string line = std::string(1023, 'x') + "\n";
  int written = 0;
  {
    const auto sink = Open(kToStandardError);
    while (written < 1000 && sink->Write(line).ok()) ++written;
  }
  const int flags = fcntl(STDERR_FILENO, F_GETFL);
  dup2(stderr_before, STDERR_FILENO);
  close(stderr_before);
  EXPECT_GT(written, 0);
  EXPECT_LE(written * 1024, room / 2 + 1024);
  EXPECT_EQ(flags & O_NONBLOCK, 0) << "others write to it too, and expect that it blocks";
  close(ends[0]);
  close(ends[1]);
}

TEST_F(LineSinkTest, WhatCannotBeALogIsRefusedByTheFlagAndMakesNoFile) {
  const std::string missing = folder_.path() + "/none/access.log";
  for (const std::string& target : {std::string(), folder_.path(), missing}) {
    const absl::Status status = LineSink::Check(target);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << target;
    EXPECT_EQ(LineSink::Open(target).status(), status) << target;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("--access-log " + target + ":"), HasSubstr("; name a file")));
  }
  EXPECT_TRUE(LineSink::Check(path_).ok());
  EXPECT_TRUE(LineSink::Check(kToStandardError).ok());
  EXPECT_FALSE(std::filesystem::exists(path_)) << "a check makes no file";
}

}  // namespace
}  // namespace baton
