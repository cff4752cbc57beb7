// Arms failpoints of a running process: one command on each connection to a unix socket.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace baton {

// The answer to one line:
//   arm PLAN   ok, or error: and why; PLAN as in failpoint.h
//   disarm     ok
//   count      a line for each point: its name, hits and how often it fired
std::string AnswerFailpointCommand(const std::string& command);

// Answers commands at `path` from a thread of its own until the process ends. Replaces a socket
// that a dead process left there. INVALID_ARGUMENT if no socket can listen at `path`.
absl::Status ServeFailpoints(const std::string& path);

}  // namespace baton
