// Two processes forked from this one, one that receives and one that sends to it, for measurements.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton {

// What moving some bytes took.
struct TransferSample {
  uint64_t bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of both processes, user and system

  double GigabytesPerSecond() const { return static_cast<double>(bytes) / seconds / 1e9; }
  double CpuSecondsPerGigabyte() const { return cpu_seconds / static_cast<double>(bytes) * 1e9; }
};

// From its construction on: wall time, and CPU time of this process and the peer.
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

// Calls `receive` in a new process; it serves, calls `ready` once with the address, and never
// returns but with an error: it is killed when all is sent. Then calls `send` in another with that
// address and the receiver's process id, and gives what it returns. DEADLINE_EXCEEDED after
// `timeout`. REQUIRES: this process has one thread, and has not used gRPC.
using ReadyFunction = std::function<void(const std::string& address)>;
absl::StatusOr<std::vector<TransferSample>> RunForkedPair(
    const std::function<absl::Status(const ReadyFunction& ready)>& receive,
    const std::function<absl::StatusOr<std::vector<TransferSample>>(const std::string& address,
                                                                    pid_t receiver)>& send,
    absl::Duration timeout);

// One line, and back. INTERNAL for anything else.
std::string EncodeSamples(const std::vector<TransferSample>& samples);
absl::StatusOr<std::vector<TransferSample>> DecodeSamples(const std::string& line);

// What the program argv[0], given as a path, says on stdout as EncodeSamples does.
absl::StatusOr<std::vector<TransferSample>> RunMeasuringProgram(
    const std::vector<std::string>& argv, absl::Duration timeout);

}  // namespace baton
