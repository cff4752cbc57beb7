// Two processes forked for a measurement: one receives, the other sends to it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

// The time that moving some bytes took.
struct TransferSample {
  uint64_t bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // CPU time of both processes, user and system

  double GigabytesPerSecond() const { return static_cast<double>(bytes) / seconds / 1e9; }
  double CpuSecondsPerGigabyte() const { return cpu_seconds / static_cast<double>(bytes) * 1e9; }
};

// Measures wall time and the CPU time of this process and the peer, from its construction on.
class TransferMeter {
 public:
  explicit TransferMeter(pid_t peer);
  TransferSample Stop(uint64_t bytes) const;

 private:
  double CpuSeconds() const;
  clockid_t peer_clock_;
  absl::Time begin_;
  double cpu_begin_ = 0;
};

// Calls `receive` in a new process. It serves, calls `ready` once with its address, and returns
// only with an error; it is killed when all is sent. Then calls `send` in another process with that
// address and the receiver's process id, and returns its samples. DEADLINE_EXCEEDED after
// `timeout`. REQUIRES: this process has one thread and has not used gRPC.
using ReadyFunction = std::function<void(const std::string& address)>;
absl::StatusOr<std::vector<TransferSample>> RunForkedPair(
    const std::function<absl::Status(const ReadyFunction& ready)>& receive,
    const std::function<absl::StatusOr<std::vector<TransferSample>>(const std::string& address,
                                                                    pid_t receiver)>& send,
    absl::Duration timeout);

// Encodes samples as one line "BYTES SECONDS CPU_SECONDS;...", and decodes it. INTERNAL if a line
// is of another form.
std::string EncodeSamples(const std::vector<TransferSample>& samples);
absl::StatusOr<std::vector<TransferSample>> DecodeSamples(const std::string& line);

// Runs the program at the path argv[0] and decodes the line that it writes to stdout.
// DEADLINE_EXCEEDED after `timeout`.
absl::StatusOr<std::vector<TransferSample>> RunMeasuringProgram(
    const std::vector<std::string>& argv, absl::Duration timeout);

}  // namespace baton
