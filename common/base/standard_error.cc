#include "common/base/standard_error.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/base/terminal_text.h"

namespace baton {
namespace {

void WriteRaw(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

void WriteErrorLine(absl::string_view program, absl::string_view message) {
  WriteRaw(absl::StrCat(program, ": ", ShownLine(message), "\n"));
}

void WriteNotice(absl::string_view text) { WriteRaw(ShownText(text)); }

}  // namespace baton
