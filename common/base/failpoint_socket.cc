#include "common/base/failpoint_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/failpoint.h"

namespace baton {
namespace {

constexpr size_t kMaxCommandBytes = 1 << 16;

// Reads up to the end of a line, or until the peer ends.
std::string ReadLine(int connection) {
  std::string line;
  char byte = 0;
  while (line.size() < kMaxCommandBytes && read(connection, &byte, 1) == 1 && byte != '\n') {
    line.push_back(byte);
  }
  return line;
}

void WriteAll(int connection, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = send(connection, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (written <= 0) return;
    done += static_cast<size_t>(written);
  }
}

void Serve(int listener) {
  while (true) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    WriteAll(connection, AnswerFailpointCommand(ReadLine(connection)));
    close(connection);
  }
}

}  // namespace

std::string AnswerFailpointCommand(const std::string& command) {
  absl::string_view rest = command;
  if (absl::ConsumePrefix(&rest, "arm ")) {
    const absl::Status status = ArmFailpoints(std::string(rest));
    return status.ok() ? "ok\n" : absl::StrCat("error: ", status.message(), "\n");
  }
  if (rest == "disarm") {
    DisarmFailpoints();
    return "ok\n";
  }
  if (rest != "count") return "error: arm PLAN, disarm or count\n";
  std::string lines;
  const std::vector<FailpointCount> counts = CountFailpoints();
  for (size_t index = 0; index < counts.size(); ++index) {
    absl::StrAppend(&lines, std::string(kFailpoints[index].name), " ", counts[index].hits, " ",
                    counts[index].fired, "\n");
  }
  return lines;
}

absl::Status ServeFailpoints(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("BATON_FAILPOINT_SOCKET: too long: ", path));
  }
  path.copy(address.sun_path, path.size());
  unlink(path.c_str());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 ||
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("BATON_FAILPOINT_SOCKET: ", path, ": ", std::strerror(errno)));
  }
  std::thread(Serve, listener).detach();
  return absl::OkStatus();
}

}  // namespace baton
