#include "client/certs/authority_folder.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/certs/certificate_authority.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AuthorityFolderTest : public testing::Test {
 protected:
  AuthorityFolderTest() {
    const absl::Status made =
        InitAuthority({.folder = folder_.path(), .trust_domain = "fleet.test"});
    EXPECT_TRUE(made.ok()) << made;
  }
  std::string ErrorOfAuthority() const {
    const absl::Status status = ReadAuthority(folder_.path()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  TemporaryFolder folder_{"authority_folder"};
};

TEST_F(AuthorityFolderTest, HasACertificateItsKeyAndATrustDomain) {
  const absl::StatusOr<Authority> authority = ReadAuthority(folder_.path());
  ASSERT_TRUE(authority.ok()) << authority.status();
  EXPECT_EQ(authority->trust_domain, "fleet.test");
  EXPECT_EQ(X509_check_private_key(authority->certificate.get(), authority->key.get()), 1);
}

TEST_F(AuthorityFolderTest, AFileThatIsMissingIsNamedWithTheRemedy) {
  for (const char* file : {"ca.key", "ca.crt"}) {
    std::filesystem::remove(PathIn(folder_.path(), file));
    EXPECT_THAT(ErrorOfAuthority(),
                AllOf(HasSubstr(PathIn(folder_.path(), file)), HasSubstr("baton certs init")));
  }
}

TEST_F(AuthorityFolderTest, TheKeyIsThatOfTheCertificate) {
  const auto issued = IssueCertificate({.folder = folder_.path()});
  ASSERT_TRUE(issued.ok()) << issued.status();
  std::filesystem::copy_file(issued->key_path, PathIn(folder_.path(), "ca.key"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(ErrorOfAuthority(), HasSubstr("ca.key: is not the key of"));
}

TEST_F(AuthorityFolderTest, AFileThatIsNoneNamesItself) {
  folder_.File("ca.key", "no key");
  EXPECT_THAT(ErrorOfAuthority(), HasSubstr(PathIn(folder_.path(), "ca.key") + ": "));
  folder_.File("ca.crt", "no certificate");
  EXPECT_THAT(ErrorOfAuthority(), HasSubstr(PathIn(folder_.path(), "ca.crt") + ": "));
}

TEST(OfFile, IsInvalidArgumentWithTheFileBeforeTheMessage) {
  EXPECT_EQ(OfFile("a/b", absl::InternalError("is odd")),
            absl::InvalidArgumentError("a/b: is odd"));
}

}  // namespace
}  // namespace baton
