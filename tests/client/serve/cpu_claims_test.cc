#include "client/serve/cpu_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/serve/runtime_folder.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The `index`th CPU number of this process. No machine has such CPUs, so the claims of other
// processes do not disturb the test.
int Cpu(int index) { return (getpid() + 1) * 100 + index; }

TEST(CpuClaims, OneHasACpuAtATimeAndGivesItBack) {
  std::optional<CpuClaims> first(std::in_place, std::vector<int>{Cpu(0), Cpu(1), Cpu(2)}, 2);
  EXPECT_THAT(first->taken(), IsEmpty());
  const CpuClaims second({Cpu(0), Cpu(1), Cpu(2), Cpu(3)}, 4);
  EXPECT_THAT(second.taken(), ElementsAre(Cpu(0), Cpu(1)));
  EXPECT_THAT(CpuClaims({Cpu(0), Cpu(2), Cpu(3)}, 3).taken(), ElementsAre(Cpu(0), Cpu(2), Cpu(3)));
  first.reset();
  EXPECT_THAT(CpuClaims({Cpu(0), Cpu(2), Cpu(1)}, 3).taken(), ElementsAre(Cpu(2)));
}

TEST(CpuClaims, LooksNoFurtherThanItNeeds) {
  const CpuClaims other({Cpu(1), Cpu(3)}, 2);
  const CpuClaims claims({Cpu(0), Cpu(1), Cpu(2), Cpu(3)}, 2);
  EXPECT_THAT(claims.taken(), ElementsAre(Cpu(1)));
  EXPECT_THAT(CpuClaims({Cpu(0), Cpu(1), Cpu(2), Cpu(3)}, 0).taken(), IsEmpty());
}

TEST(CpuClaims, GoWithTheObjectThatTheyAreMovedTo) {
  CpuClaims to;
  {
    CpuClaims from({Cpu(0)}, 1);
    to = std::move(from);
  }
  EXPECT_THAT(CpuClaims({Cpu(0)}, 1).taken(), ElementsAre(Cpu(0)));
  to = CpuClaims();
  EXPECT_THAT(CpuClaims({Cpu(0)}, 1).taken(), IsEmpty());
}

TEST(CpuClaims, EndWithTheProcessHoweverItEnds) {
  int claimed[2];
  ASSERT_EQ(pipe(claimed), 0);
  const int cpu = Cpu(0);
  const pid_t child = fork();
  if (child == 0) {
    const CpuClaims claims({cpu}, 1);
    if (write(claimed[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  close(claimed[1]);
  char byte = 0;
  ASSERT_EQ(read(claimed[0], &byte, 1), 1);
  close(claimed[0]);
  EXPECT_THAT(CpuClaims({cpu}, 1).taken(), ElementsAre(cpu));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(CpuClaims({cpu}, 1).taken(), IsEmpty());
}

// Any user can take a name of the kernel's, such as that of an abstract socket.
TEST(CpuClaims, ASocketThatHasTheNameOfACpuDoesNotCount) {
  for (const std::string& name :
       {absl::StrCat("baton-cpu-", Cpu(0)), absl::StrCat("cpu-", Cpu(0))}) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_THAT(CpuClaims({Cpu(0)}, 1).taken(), IsEmpty()) << name;
    close(fd);
  }
}

TEST(CpuClaims, LeaveNoFilesBehind) {
  const std::string folder = RuntimeFolder().value_or("");
  const std::string file = absl::StrCat(folder, "/cpu-", Cpu(0), ".lock");
  {
    const CpuClaims claims({Cpu(0)}, 1);
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
  }
  EXPECT_FALSE(std::filesystem::exists(file)) << file;
}

}  // namespace
}  // namespace baton
