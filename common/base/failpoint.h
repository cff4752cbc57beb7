// Failpoints: places at the state transitions of a request where a test makes this process fail.
// They are compiled in only with BATON_FAILPOINTS (the preset `failpoints`). In other builds the
// macros leave nothing behind.
//
//   BATON_FAILPOINT("receive_machine.before_commit");
//   BATON_RETURN_IF_ERROR(BATON_FAILPOINT_STATUS("prefill.before_submit"));
//   BATON_FAILPOINT_BYTES("send_driver.header", header.data(), header.size());
//
// A point does what it was armed for: by the environment variable BATON_FAILPOINTS when the process
// starts, or over a socket while it runs (failpoint_socket.h). Both take a plan:
//
//   PLAN:   NAME=ACTION[@N] {; NAME=ACTION[@N]}
//   ACTION: error (UNAVAILABLE) | corrupt (one bit) | sleep(MILLISECONDS) | kill | stop
//   N:      the point acts only at its N-th hit after it was armed; without N it acts at each
//
// kill and stop send SIGKILL and SIGSTOP to the process itself. Whatever a point does, it says so
// on stderr first. All functions are thread-safe.
#pragma once

#ifdef BATON_FAILPOINTS

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/base/failpoint_table.h"

namespace baton {

void ReachFailpoint(size_t index);
// UNAVAILABLE if the point is armed for an error, else OK.
absl::Status FailpointStatus(size_t index);
// Flips a bit of the byte in the middle if the point is armed to corrupt.
void FailpointBytes(size_t index, void* bytes, size_t size);

// Arms the points of a plan. INVALID_ARGUMENT names the entry that is wrong; then none is armed.
absl::Status ArmFailpoints(const std::string& plan);
void DisarmFailpoints();

struct FailpointCount {
  uint64_t hits = 0;   // hits since the process began, armed or not
  uint64_t fired = 0;  // hits at which the point did what it was armed for
};
std::vector<FailpointCount> CountFailpoints();  // [kFailpointCount]

// Arms the plan in the environment variable BATON_FAILPOINTS, and serves the socket in
// BATON_FAILPOINT_SOCKET, if these are set.
absl::Status StartFailpoints();

}  // namespace baton

#define BATON_FAILPOINT_INDEX(name, form) \
  ::baton::FailpointIndex(name, ::baton::FailpointForm::form)
#define BATON_FAILPOINT(name) ::baton::ReachFailpoint(BATON_FAILPOINT_INDEX(name, kPlain))
#define BATON_FAILPOINT_STATUS(name) ::baton::FailpointStatus(BATON_FAILPOINT_INDEX(name, kStatus))
#define BATON_FAILPOINT_BYTES(name, bytes, size) \
  ::baton::FailpointBytes(BATON_FAILPOINT_INDEX(name, kBytes), bytes, size)
#define BATON_START_FAILPOINTS() ::baton::StartFailpoints()

#else

#define BATON_FAILPOINT(name) static_cast<void>(0)
#define BATON_FAILPOINT_STATUS(name) ::absl::OkStatus()
#define BATON_FAILPOINT_BYTES(name, bytes, size) static_cast<void>(0)
#define BATON_START_FAILPOINTS() ::absl::OkStatus()

#endif
