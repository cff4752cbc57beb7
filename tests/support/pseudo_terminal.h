// A terminal in place of a descriptor of this process.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "gtest/gtest.h"

namespace baton {

// Calls `write` while `fd` is a terminal, and returns the bytes that arrived there, at most about
// 4,000: more than the terminal's buffer would block. A real terminal would change line ends; this
// one is raw.
inline std::string ShownOnTerminal(int fd, const std::function<void()>& write) {
  const int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  std::array<char, 128> name;
  if (reader < 0 || grantpt(reader) != 0 || unlockpt(reader) != 0 ||
      ptsname_r(reader, name.data(), name.size()) != 0) {
    ADD_FAILURE() << "no pseudo terminal";
    return "";
  }
  const int terminal = open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios settings{};
  EXPECT_EQ(tcgetattr(terminal, &settings), 0);
  cfmakeraw(&settings);
  EXPECT_EQ(tcsetattr(terminal, TCSANOW, &settings), 0);
  const int before = dup(fd);
  dup2(terminal, fd);
  close(terminal);
  write();
  dup2(before, fd);
  close(before);
  std::string shown;
  std::array<char, 4096> buffer;
  for (ssize_t size; (size = read(reader, buffer.data(), buffer.size())) > 0;) {
    shown.append(buffer.data(), static_cast<size_t>(size));
  }
  close(reader);
  return shown;
}

}  // namespace baton
