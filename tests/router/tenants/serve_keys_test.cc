#include "router/tenants/serve_keys.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "router/tenants/api_key.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFirst[] = "first-key-0123456";  // 17 characters

std::string ParseError(const std::string& content) {
  return std::string(ParseServeKeys("keys.txt", content).status().message());
}

TEST(ServeKeys, EachLineIsAKeyOfTheTenantDefaultWhoseHashAloneIsKept) {
  const std::string second(256, 'x');
  const absl::StatusOr<KeysFile> file = ParseServeKeys(
      "keys.txt",
      absl::StrCat("# of the team\n\n", kFirst, "\r\n \t", second, "  \n#", kFirst, "\n", kFirst));
  ASSERT_TRUE(file.ok()) << file.status();
  KeysFile expected;
  expected.tenants["default"] = Tenant();
  expected.keys = {{.hash = HashApiKey(kFirst), .tenant = "default"},
                   {.hash = HashApiKey(second), .tenant = "default"}};
  EXPECT_EQ(*file, expected);
}

TEST(ServeKeys, ALineThatCannotBeAKeyIsNamedAndNotRepeated) {
  for (const std::string& line :
       {std::string("fifteen-letters"), std::string(257, 'x'), std::string("with blank 012345"),
        std::string("k\u00e9y-of-seventeen"), std::string("zero\0byte-0123456", 17)}) {
    EXPECT_THAT(ParseError(absl::StrCat("# a\n", line, "\n")),
                AllOf(HasSubstr("keys.txt:2: must be a key of 16 to 256 printable characters"),
                      HasSubstr("openssl rand -hex 32"), Not(HasSubstr(line))));
  }
}

TEST(ServeKeys, AFileWithoutAKeyIsRefused) {
  for (const char* content : {"", "\n\n", "# none\n"}) {
    EXPECT_THAT(ParseError(content), HasSubstr("keys.txt: contains no key; write one key per line"))
        << content;
  }
}

TEST(ServeKeys, OnlyTheirOwnerMayHaveRightsToTheFile) {
  const TemporaryFolder folder("serve_keys_test");
  const std::string path = folder.File("keys.txt", kFirst);
  for (const mode_t mode : {0400, 0600}) {
    chmod(path.c_str(), mode);
    EXPECT_EQ(ReadServeKeys(path).value_or(""), kFirst) << mode;
  }
  for (const mode_t mode : {0640, 0604, 0620, 0610}) {
    chmod(path.c_str(), mode);
    const std::string error(ReadServeKeys(path).status().message());
    EXPECT_THAT(error, HasSubstr(absl::StrCat(path, ": mode 0")));
    EXPECT_THAT(error, HasSubstr(absl::StrCat("; chmod 600 ", path)));
  }
  EXPECT_THAT(std::string(ReadServeKeys(folder.path() + "/none").status().message()),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace baton
