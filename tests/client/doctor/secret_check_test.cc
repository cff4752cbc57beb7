#include "client/doctor/secret_check.h"

#include <sys/stat.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(SecretFindings, TellFilesThatOthersMayReadOrWrite) {
  const TemporaryFolder folder("secret_check_test");
  const ServerConfig config =
      ServerConfigOf("router.toml", {{"decode", {"d:1"}},
                                     {"api-keys", {folder.File("keys.toml", "")}},
                                     {"fleet-secret-file", {folder.File("fleet-secret", "")}}});
  ASSERT_EQ(config.secrets.size(), 2u);
  for (const mode_t mode : {0600, 0440, 0644, 0660}) {
    chmod(config.secrets[0].c_str(), 0600);
    chmod(config.secrets[1].c_str(), mode);
    const Findings findings = SecretFindings(config);
    ASSERT_EQ(findings.size(), 2u);
    EXPECT_EQ(findings[0].verdict, Verdict::kOk);
    EXPECT_EQ(findings[1].check, "secret.mode");
    EXPECT_THAT(findings[1].subject, HasSubstr("router.toml " + config.secrets[1]));
    const bool open = mode == 0644 || mode == 0660;
    EXPECT_EQ(findings[1].verdict, open ? Verdict::kFailed : Verdict::kOk) << mode;
    EXPECT_EQ(findings[1].remedy, open ? "chmod 600 " + config.secrets[1] : "");
  }
}

TEST(SecretFindings, TellAFileOfKeysThatItsGroupMayRead) {
  const TemporaryFolder folder("secret_check_serve_keys");
  const ServerConfig config =
      ServerConfigOf("router.toml", {{"serve-key-file", {folder.File("keys.txt", "")}}});
  EXPECT_TRUE(config.router);
  for (const mode_t mode : {0600, 0440}) {
    chmod(config.serve_keys.c_str(), mode);
    const Findings findings = SecretFindings(config);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].check, "secret.mode");
    EXPECT_EQ(findings[0].verdict, mode == 0600 ? Verdict::kOk : Verdict::kFailed) << mode;
    EXPECT_EQ(findings[0].remedy, mode == 0600 ? "" : "chmod 600 " + config.serve_keys);
  }
}

TEST(SecretFindings, TellAFileThatIsNotThere) {
  const Findings findings =
      SecretFindings(ServerConfigOf("router.toml", {{"api-keys", {"/nowhere/keys.toml"}}}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kFailed);
  EXPECT_THAT(findings[0].found, HasSubstr("No such file"));
}

}  // namespace
}  // namespace baton
