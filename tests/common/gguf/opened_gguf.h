// GGUF files that a test expects to open. One that does not is a failure, and an empty file stands
// in its place.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "common/gguf/gguf_file.h"
#include "tests/support/gguf_builder.h"

namespace baton {

inline std::string TinyPath(const std::string& name) {
  return std::string(BATON_TEST_DATA) + "/tiny/" + name;
}

inline GgufFile Unwrap(absl::StatusOr<GgufFile> file) {
  if (!file.ok()) {
    ADD_FAILURE() << file.status();
    return *GgufFile::Parse(GgufBuilder().Build(), "nothing.gguf");
  }
  return *std::move(file);
}
inline GgufFile OpenTiny(const std::string& name) { return Unwrap(GgufFile::Open(TinyPath(name))); }
inline GgufFile ParseGood(const GgufBuilder& builder) {
  return Unwrap(GgufFile::Parse(builder.Build(), "good.gguf"));
}

}  // namespace baton
