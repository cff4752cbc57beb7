#include "client/terminal/line_reader.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "client/terminal/terminal_lines.h"
#include "common/base/standard_error.h"

namespace baton {
namespace {

// What Linux keeps of a line that is typed into a terminal, its newline not counted.
constexpr size_t kTerminalLine = 4095;

bool MovesItsCursor() {
  const char* const type = std::getenv("TERM");
  return type != nullptr && type[0] != '\0' && absl::string_view(type) != "dumb";
}

}  // namespace

std::optional<std::string> StreamLines::Read(const std::string& prompt) {
  std::string line;
  while (true) {
    WriteNotice(prompt);
    if (!std::getline(in_, line)) return std::nullopt;
    if (cut_at_ == 0 || line.size() < cut_at_) return line;
    WriteNotice(absl::StrCat("the terminal cuts lines at ", cut_at_,
                             " bytes, and this one is not sent; write it as several between "
                             "\"\"\", or give it by `baton run < FILE`\n"));
  }
}

std::unique_ptr<LineReader> StandardInputLines() {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal && isatty(STDERR_FILENO) != 0 && MovesItsCursor()) {
    if (auto lines = TerminalLines::Open()) return lines;
  }
  return std::make_unique<StreamLines>(std::cin, terminal ? kTerminalLine : 0);
}

}  // namespace baton
