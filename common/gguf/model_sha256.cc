#include "common/gguf/model_sha256.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"

namespace baton {

absl::Status ValidateModelSha256(const std::string& expected) {
  const bool digits = std::all_of(expected.begin(), expected.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (expected.empty() || (expected.size() == 64 && digits)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--model-sha256: '", expected,
                   "' is not 64 hexadecimal digits; give the output of `sha256sum FILE`"));
}

absl::Status CheckModelSha256(const std::string& expected, const std::string& digest,
                              const std::string& path) {
  const std::string actual = ToHex(digest);
  if (actual == absl::AsciiStrToLower(expected)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--model-sha256: ", path, " has SHA-256 ", actual, ", not ", expected,
      "; fetch the file again, or give the first of these digests if this is the right file"));
}

}  // namespace baton
