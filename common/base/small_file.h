// Reads and writes files that are small: keys, secrets, settings. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// Returns the text of the file, without a byte order mark (plain_text.h). INVALID_ARGUMENT names
// the path when it is no regular file (a pipe would keep its reader waiting until a writer comes),
// cannot be read, or holds more than `max_bytes`. ReadSmallFileOrPipe also waits for what a pipe or
// a terminal gives: for a command that a person has just typed.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes);
absl::StatusOr<std::string> ReadSmallFileOrPipe(const std::string& path, size_t max_bytes);

// Writes all of `bytes`, however many calls it takes. False, with errno, when it cannot.
bool WriteAll(int fd, absl::string_view bytes);

// Returns whether the open file `fd` is the one at `path`: it was neither moved nor deleted, and no
// other has taken its place.
bool IsFileAt(int fd, const std::string& path);

struct WriteOptions {
  mode_t mode = 0600;
  bool replace = true;  // false: ALREADY_EXISTS if the file is there, even if it was made just now
  absl::string_view remedy = "name a file in a folder that can be written";
};

// Makes the file, or replaces it, in one step: its readers see the old one or the whole new one.
// INVALID_ARGUMENT names the path and the remedy.
absl::Status WriteSmallFile(const std::string& path, absl::string_view content,
                            const WriteOptions& options = {});

}  // namespace baton
