// The program is a script that keeps to what NVIDIA documents of it: with -f it makes a pipe and a
// file with its number in CUDA_MPS_PIPE_DIRECTORY, and without an argument it hands its input to the
// one that runs.
#include "client/serve/mps_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using testing::HasSubstr;

class MpsControlTest : public testing::Test {
 protected:
  MpsControlTest() { setenv("PATH", absl::StrCat(folder_.path(), ":", path_).c_str(), 1); }
  ~MpsControlTest() override { setenv("PATH", path_.c_str(), 1); }

  // Makes the program, which does `service` when it is started with -f.
  void MakeProgram(const std::string& service) const {
    const std::string name = folder_.path() + "/nvidia-cuda-mps-control";
    std::ofstream(name) << "#!/bin/sh\n"
                        << "cd \"$CUDA_MPS_PIPE_DIRECTORY\" || exit 1\n"
                        << "[ \"$1\" = -f ] || exec cat > control\n"
                        << service << "\n";
    std::filesystem::permissions(name, std::filesystem::perms::owner_all);
  }
  void MakeGoodProgram() const {
    MakeProgram(absl::StrCat("mkfifo control\n", "echo $$ > nvidia-cuda-mps-control.pid\n",
                             "read word < control\n", "echo $word > ", said(), "\n"));
  }
  // Where the program writes what it was told.
  std::string said() const { return folder_.path() + "/said"; }

 private:
  const std::string path_ = getenv("PATH");
  const TemporaryFolder folder_{"mps_control_test"};
};

TEST_F(MpsControlTest, ServesTheProcessesThatStartLaterAndQuitsAtItsEnd) {
  MakeGoodProgram();
  std::string pipes;
  {
    const auto control = MpsControl::Start();
    ASSERT_TRUE(control.ok()) << control.status();
    EXPECT_TRUE((*control)->Runs());
    pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
    auto client = ChildProcess::Start(
        {"/bin/sh", "-c",
         "test -p $CUDA_MPS_PIPE_DIRECTORY/control -a -d $CUDA_MPS_LOG_DIRECTORY"});
    ASSERT_TRUE(client.ok());
    EXPECT_EQ(client->Wait(absl::Seconds(20))->code, 0);
    const auto perms = std::filesystem::status(pipes).permissions();
    EXPECT_EQ(perms, std::filesystem::perms::owner_all) << "nobody else may use the GPU by it";
  }
  std::string word;
  std::ifstream(said()) >> word;
  EXPECT_EQ(word, "quit");
  EXPECT_EQ(getenv("CUDA_MPS_PIPE_DIRECTORY"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(pipes));
}

TEST_F(MpsControlTest, IsSeenToHaveEnded) {
  MakeGoodProgram();
  const auto control = MpsControl::Start();
  ASSERT_TRUE(control.ok()) << control.status();
  const std::string pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::ofstream(pipes + "/control") << "crash\n";
  while ((*control)->Runs()) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(MpsControlTest, SaysWhyThereIsNone) {
  MakeProgram("exit 3");
  EXPECT_THAT(MpsControl::Start().status().message(),
              testing::AllOf(HasSubstr("--cuda-mps"), HasSubstr("exit code 3")));
  EXPECT_EQ(getenv("CUDA_MPS_PIPE_DIRECTORY"), nullptr) << "workers would search it there";
  MakeProgram("exec sleep 60");
  EXPECT_THAT(MpsControl::Start(absl::Milliseconds(50)).status().message(),
              HasSubstr("not ready after 50ms"));
  EXPECT_EQ(getenv("CUDA_MPS_PIPE_DIRECTORY"), nullptr);
  setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/theirs", 1);
  EXPECT_THAT(MpsControl::Start().status().message(), HasSubstr("/run/theirs"));
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  setenv("PATH", "/nowhere::/nor/here", 1);
  EXPECT_THAT(MpsControl::Start().status().message(), HasSubstr("no nvidia-cuda-mps-control"));
}

}  // namespace
}  // namespace baton
