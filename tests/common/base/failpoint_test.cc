// Tests of failpoints. This file is compiled with failpoints in every preset.
#include "common/base/failpoint.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/failpoint_socket.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

size_t FirstOf(FailpointForm form) {
  size_t index = 0;
  while (kFailpoints[index].form != form) ++index;
  return index;
}

class Failpoints : public ::testing::Test {
 protected:
  Failpoints() { before_ = CountFailpoints(); }
  ~Failpoints() override { DisarmFailpoints(); }

  void Arm(size_t index, const std::string& action) {
    ASSERT_TRUE(ArmFailpoints(std::string(kFailpoints[index].name) + "=" + action).ok());
  }
  uint64_t Hits(size_t index) { return CountFailpoints()[index].hits - before_[index].hits; }
  uint64_t Fired(size_t index) { return CountFailpoints()[index].fired - before_[index].fired; }

  const size_t plain_ = FirstOf(FailpointForm::kPlain);
  const size_t status_ = FirstOf(FailpointForm::kStatus);
  const size_t bytes_ = FirstOf(FailpointForm::kBytes);

 private:
  std::vector<FailpointCount> before_;
};

TEST_F(Failpoints, CountWhoeverComesAndDoNothingUnarmed) {
  ReachFailpoint(plain_);
  EXPECT_TRUE(FailpointStatus(status_).ok());
  uint8_t byte = 7;
  FailpointBytes(bytes_, &byte, 1);
  EXPECT_EQ(byte, 7);
  for (const size_t index : {plain_, status_, bytes_}) {
    EXPECT_EQ(Hits(index), 1u);
    EXPECT_EQ(Fired(index), 0u);
  }
}

TEST_F(Failpoints, ReturnAnErrorAtEachHitOrAtOne) {
  EXPECT_TRUE(FailpointStatus(status_).ok());
  Arm(status_, "error@2");
  EXPECT_TRUE(FailpointStatus(status_).ok());
  EXPECT_TRUE(absl::IsUnavailable(FailpointStatus(status_)));
  EXPECT_TRUE(FailpointStatus(status_).ok());
  Arm(status_, "error");
  EXPECT_FALSE(FailpointStatus(status_).ok());
  EXPECT_FALSE(FailpointStatus(status_).ok());
  EXPECT_EQ(Hits(status_), 6u);
  EXPECT_EQ(Fired(status_), 3u);
  DisarmFailpoints();
  EXPECT_TRUE(FailpointStatus(status_).ok());
}

TEST_F(Failpoints, FlipOneBit) {
  Arm(bytes_, "corrupt@1");
  std::string bytes(9, 'a');
  FailpointBytes(bytes_, bytes.data(), bytes.size());
  EXPECT_EQ(bytes, "aaaa`aaaa");
  FailpointBytes(bytes_, bytes.data(), bytes.size());
  EXPECT_EQ(bytes, "aaaa`aaaa");
  FailpointBytes(bytes_, nullptr, 0);
}

TEST_F(Failpoints, Sleep) {
  Arm(plain_, "sleep(20)");
  const absl::Time begin = absl::Now();
  ReachFailpoint(plain_);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(20));
}

// Runs `child` in a process of its own and waits until that ends or stops.
template <typename Child>
int StatusOfProcess(const Child& child, pid_t* pid) {
  *pid = fork();
  if (*pid == 0) {
    child();
    _exit(3);
  }
  int status = 0;
  waitpid(*pid, &status, WUNTRACED);
  return status;
}

TEST_F(Failpoints, KillTheProcessAtThePointAndNotBefore) {
  pid_t pid = 0;
  const int status = StatusOfProcess(
      [&] {
        Arm(plain_, "kill@3");
        ReachFailpoint(plain_);
        ReachFailpoint(plain_);
        if (Fired(plain_) > 0) _exit(4);
        ReachFailpoint(plain_);
      },
      &pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST_F(Failpoints, StopTheProcessUntilItIsContinued) {
  pid_t pid = 0;
  int status = StatusOfProcess(
      [&] {
        Arm(plain_, "stop@1");
        ReachFailpoint(plain_);
      },
      &pid);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  kill(pid, SIGCONT);
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST_F(Failpoints, RefuseAPlanWithAnyWrongEntryAndArmNoneOfIt) {
  const std::string plain(kFailpoints[plain_].name);
  const std::string status(kFailpoints[status_].name);
  for (const std::string& wrong : std::vector<std::string>{
           "nowhere=kill", "=kill", plain, plain + "=", plain + "=kill@0", plain + "=kill@",
           plain + "=kill@-1", plain + "=sleep", plain + "=sleep(x)", plain + "=sleep(1",
           plain + "=error", plain + "=corrupt", status + "=corrupt"}) {
    const absl::Status armed = ArmFailpoints(status + "=error;" + wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(armed)) << wrong;
    EXPECT_THAT(std::string(armed.message()), HasSubstr(wrong));
    EXPECT_TRUE(FailpointStatus(status_).ok()) << wrong;
  }
  EXPECT_TRUE(ArmFailpoints(" " + status + "=error ; " + plain + "=sleep(0)@7;").ok());
  EXPECT_FALSE(FailpointStatus(status_).ok());
}

TEST_F(Failpoints, AnswerCommandsOnASocket) {
  const std::string path = testing::TempDir() + "failpoint_test." + std::to_string(getpid());
  ASSERT_TRUE(ServeFailpoints(path).ok());
  const auto ask = [&](const std::string& command) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    const int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const std::string line = command + "\n";
    EXPECT_EQ(write(connection, line.data(), line.size()), static_cast<ssize_t>(line.size()));
    std::string answer(1 << 16, '\0');
    size_t size = 0;
    for (ssize_t got = 0; (got = read(connection, &answer[size], answer.size() - size)) > 0;) {
      size += static_cast<size_t>(got);
    }
    close(connection);
    return answer.substr(0, size);
  };
  const std::string name(kFailpoints[status_].name);
  EXPECT_EQ(ask("arm " + name + "=error@1"), "ok\n");
  EXPECT_FALSE(FailpointStatus(status_).ok());
  const FailpointCount count = CountFailpoints()[status_];
  EXPECT_THAT(ask("count"), HasSubstr(name + " " + std::to_string(count.hits) + " " +
                                      std::to_string(count.fired) + "\n"));
  EXPECT_THAT(ask("arm " + name + "=explode"), StartsWith("error: "));
  EXPECT_EQ(ask("arm " + name + "=error"), "ok\n");
  EXPECT_EQ(ask("disarm"), "ok\n");
  EXPECT_TRUE(FailpointStatus(status_).ok());
  EXPECT_THAT(ask("what"), StartsWith("error: "));
  unlink(path.c_str());
}

}  // namespace
}  // namespace baton
