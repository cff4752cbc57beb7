#include "client/serve/name_claim.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "client/serve/runtime_folder.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

// A name that no other process claims.
std::string OwnName(const std::string& name) {
  return "baton_name_claim_test_" + std::to_string(getpid()) + "_" + name;
}

TEST(NameClaim, OneHasANameAtATimeAndGivesItBack) {
  const std::string name = OwnName("a");
  {
    const std::optional<NameClaim> claim = NameClaim::Take(name);
    EXPECT_TRUE(claim.has_value());
    EXPECT_FALSE(NameClaim::Take(name).has_value());
    EXPECT_TRUE(NameClaim::Take(OwnName("b")).has_value());
    EXPECT_TRUE(NameClaim::Take(name + "a").has_value()) << "a longer name is another";
  }
  EXPECT_TRUE(NameClaim::Take(name).has_value());
}

TEST(NameClaim, GoesWithTheObjectThatItIsMovedTo) {
  const std::string name = OwnName("moved");
  std::optional<NameClaim> to;
  {
    std::optional<NameClaim> from = NameClaim::Take(name);
    to.emplace(*std::move(from));
  }
  EXPECT_FALSE(NameClaim::Take(name).has_value());
  *to = *NameClaim::Take(OwnName("other"));
  EXPECT_TRUE(NameClaim::Take(name).has_value());
}

TEST(NameClaim, HoldsAgainstOtherProcesses) {
  const std::string name = OwnName("child");
  const std::optional<NameClaim> claim = NameClaim::Take(name);
  const pid_t child = fork();
  if (child == 0) _exit(NameClaim::Take(name).has_value() ? 1 : 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child took it too";
}

TEST(NameClaim, AFileThatAnEndedProcessLeftIsFree) {
  const std::string name = OwnName("left");
  const std::string file = RuntimeFolder().value_or("") + "/" + name + ".lock";
  std::ofstream(file) << "";
  EXPECT_TRUE(NameClaim::Take(name).has_value());
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(NameClaim, TheNamesOfAnotherUsersFolderAreNotOurs) {
  const char* const was = std::getenv("XDG_RUNTIME_DIR");
  const std::string before = was == nullptr ? "" : was;
  const TemporaryFolder theirs("name_claim_test");
  ASSERT_EQ(chmod(theirs.path().c_str(), 0700), 0);
  const std::string name = OwnName("theirs");
  setenv("XDG_RUNTIME_DIR", theirs.path().c_str(), 1);
  const std::optional<NameClaim> claim = NameClaim::Take(name);
  EXPECT_TRUE(claim.has_value());
  if (was == nullptr) {
    unsetenv("XDG_RUNTIME_DIR");
  } else {
    setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
  }
  EXPECT_TRUE(NameClaim::Take(name).has_value());
}

}  // namespace
}  // namespace baton
