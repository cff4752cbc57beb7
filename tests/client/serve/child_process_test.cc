#include "client/serve/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace baton {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20);

absl::StatusOr<ChildProcess> Shell(const std::string& script) {
  return ChildProcess::Start({"/bin/sh", "-c", script});
}

TEST(ChildProcess, TellsTheExitCode) {
  auto child = Shell("exit 7");
  ASSERT_TRUE(child.ok()) << child.status();
  const auto exit = child->Wait(kLong);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 7);
  EXPECT_EQ(exit->signal, 0);
  EXPECT_EQ(exit->Text(), "exit code 7");
}

TEST(ChildProcess, TellsTheSignalThatEndedIt) {
  auto child = Shell("exec sleep 60");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_FALSE(child->Poll().has_value());
  child->Signal(SIGKILL);
  const auto exit = child->Wait(kLong);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->signal, SIGKILL);
  EXPECT_EQ(exit->Text(), "signal 9");
}

TEST(ChildProcess, IsRefusedByNameWhereTheBinaryIsMissing) {
  const auto child = ChildProcess::Start({"/nowhere/baton-router"});
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(child.status().message().find("/nowhere/baton-router"), absl::string_view::npos);
}

TEST(ChildProcess, DoesNotInheritOurSettings) {
  setenv("BATON_LISTEN", "127.0.0.1:1", 1);
  setenv("OTHER_LISTEN", "127.0.0.1:1", 1);
  setenv("NOTIFY_SOCKET", "/run/notify", 1);
  auto child =
      Shell("test -z \"$BATON_LISTEN\" && test -z \"$NOTIFY_SOCKET\" && test -n \"$OTHER_LISTEN\"");
  unsetenv("NOTIFY_SOCKET");
  ASSERT_TRUE(child.ok()) << child.status();
  const auto exit = child->Wait(kLong);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0);
}

TEST(ChildProcess, InheritsNoDescriptorOfOurs) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // without close-on-exec, as a library may open descriptors
  auto child = Shell(absl::StrCat("test ! -e /proc/self/fd/", ends[0]));
  ASSERT_TRUE(child.ok()) << child.status();
  const auto exit = child->Wait(kLong);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0);
  for (const int end : ends) close(end);
}

TEST(ChildProcess, EndsWhenItIsDestroyed) {
  pid_t pid = -1;
  {
    auto child = Shell("exec sleep 60");
    ASSERT_TRUE(child.ok()) << child.status();
    pid = child->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(ChildProcess, EndsWithItsParent) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = Shell("exec sleep 60");
    const pid_t pid = child.ok() ? child->pid() : -1;
    if (write(fds[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
    pause();
  }
  pid_t grandchild = -1;
  ASSERT_EQ(read(fds[0], &grandchild, sizeof(grandchild)),
            static_cast<ssize_t>(sizeof(grandchild)));
  ASSERT_GT(grandchild, 0);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // The grandchild is gone, or is a zombie that waits for the process that reaps orphans here.
  const auto gone = [grandchild] {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::stringstream text;
    text << stat.rdbuf();
    return text.str().empty() || text.str().find(") Z") != std::string::npos;
  };
  for (const absl::Time end = absl::Now() + kLong; !gone() && absl::Now() < end;) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(gone());
}

TEST(ReapOrphans, TakesTheEndOfAProcessWhoseParentEndedAndLeavesThatOfAnOwnChild) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans become ours, as they do of process 1
  auto own = Shell("exec sleep 60");
  ASSERT_TRUE(own.ok()) << own.status();
  auto parent = Shell("true & exit 0");
  ASSERT_TRUE(parent.ok()) << parent.status();
  ASSERT_TRUE(parent->Wait(kLong).has_value());
  siginfo_t orphan{};
  ASSERT_EQ(waitid(P_ALL, 0, &orphan, WEXITED | WNOWAIT), 0);
  ASSERT_NE(orphan.si_pid, own->pid());
  ReapOrphans({own->pid()});
  siginfo_t gone{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(orphan.si_pid), &gone, WEXITED | WNOHANG), -1);

  own->Signal(SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(own->pid()), &ended, WEXITED | WNOWAIT), 0);
  ReapOrphans({own->pid()});
  const auto exit = own->Wait(kLong);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->signal, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace baton
