// Where lines of the access log are written to: a file, a named pipe, or standard error.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton {

inline constexpr char kToStandardError[] = "stderr";

// Appends to its file, which is opened anew when another file, or none, is at its path: a program
// that rotates logs only moves the file. Not thread-safe.
class LineSink {
 public:
  // How long a write waits for a reader. After a wait in vain the next writes do not wait, until one
  // has succeeded.
  static constexpr absl::Duration kPatience = absl::Milliseconds(100);

  // Checks that `target`, a path or kToStandardError, can be written to, and creates nothing.
  // INVALID_ARGUMENT names --access-log, the path and the remedy.
  static absl::Status Check(const std::string& target);
  // Opens `target`; errors as those of Check. A named pipe need not have a reader yet.
  static absl::StatusOr<std::unique_ptr<LineSink>> Open(const std::string& target);
  ~LineSink();
  LineSink(const LineSink&) = delete;
  LineSink& operator=(const LineSink&) = delete;

  // Writes `line`, which ends with a newline and is at most PIPE_BUF bytes long. If only its
  // beginning could be written, as on a disk that is nearly full, the rest precedes the next line.
  // UNAVAILABLE: nothing of it was written. Lines to standard error use at most half of the room in
  // a pipe or socket: the rest is for the ordinary log, whose writers would wait.
  absl::Status Write(absl::string_view line);

 private:
  explicit LineSink(std::string path) : path_(std::move(path)) {}
  absl::Status Reopen();
  bool WaitForRoom();
  // Writes, and removes from `text` what was written.
  absl::Status Put(absl::string_view& text);
  absl::Status Failed(int error) const;
  void CloseFile();

  const std::string path_;  // empty: standard error
  int fd_ = -1;             // -1: not open
  bool stuck_ = false;      // the last wait for a reader was in vain
  std::string rest_;        // rest of a line whose beginning was written
};

}  // namespace baton
