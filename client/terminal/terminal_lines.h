// Lines that are typed into a terminal, with the editing and the history of libedit.
#pragma once

#include <histedit.h>
#include <locale.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "client/terminal/line_reader.h"

namespace baton {

// Arrow keys, Ctrl-A, Ctrl-E, Ctrl-R and so on work as in a shell; the history ends with the
// process. What is pasted is one piece of the line, newlines too: the terminal marks its beginning
// and end ("bracketed paste"). Ctrl-C while a line is typed empties it; on an empty line it says
// how to end. Text is UTF-8 whatever the environment's locale is.
//
// Between two calls of Read the terminal is as it was before, so Ctrl-C sends SIGINT.
// Single-threaded: Open, Read and the destructor belong to one thread.
class TerminalLines : public LineReader {
 public:
  // Null if libedit cannot use the terminal. REQUIRES: stdin and stderr are terminals.
  static std::unique_ptr<TerminalLines> Open();
  ~TerminalLines() override;

  std::optional<std::string> Read(const std::string& prompt) override;

 private:
  template <typename T, auto kFree>
  using Owned = std::unique_ptr<T, std::integral_constant<decltype(kFree), kFree>>;

  TerminalLines() = default;

  locale_t utf8_ = nullptr;
  Owned<FILE, &fclose> out_;  // stderr; libedit writes many small pieces, which this one collects
  Owned<History, &history_end> history_;
  Owned<EditLine, &el_end> editor_;
  std::string prompt_;
};

}  // namespace baton
