#include "common/gguf/model_sha256.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ModelSha256, IsEmptyOr64HexadecimalDigits) {
  EXPECT_TRUE(ValidateModelSha256("").ok());
  EXPECT_TRUE(ValidateModelSha256(std::string(32, 'a') + std::string(32, 'F')).ok());
  for (const std::string& bad :
       {std::string(63, '0'), std::string(65, '0'), std::string(63, '0') + "g"}) {
    const absl::Status status = ValidateModelSha256(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find(absl::StrCat("--model-sha256: '", bad, "'")),
              std::string::npos);
  }
}

TEST(ModelSha256, IsThatOfTheFileInEitherCase) {
  const std::string digest(32, '\xab');
  std::string expected;
  for (int i = 0; i < 32; ++i) expected += i % 2 == 0 ? "ab" : "AB";
  EXPECT_TRUE(CheckModelSha256(expected, digest, "m.gguf").ok());
  expected.back() = '0';
  const absl::Status status = CheckModelSha256(expected, digest, "m.gguf");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  std::string actual;
  for (int i = 0; i < 32; ++i) actual += "ab";
  EXPECT_EQ(
      status.message(),
      absl::StrCat(
          "--model-sha256: m.gguf has SHA-256 ", actual, ", not ", expected,
          "; fetch the file again, or give the first of these digests if this is the right file"));
}

}  // namespace
}  // namespace baton
