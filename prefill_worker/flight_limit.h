// How much of a push may be on its way at once, learnt from how soon it is acknowledged.
//
// Whatever waits for the network waits below us, in gRPC and in the kernel, and a keepalive ping
// waits behind it: on a slow link megabytes there would make a living connection look dead. So no
// more is handed down than earlier messages have shown to be delivered in about half a second.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace baton {

// Pure; not thread-safe.
class FlightLimit {
 public:
  // What is sent before anything is known: half a second of 1 Mbit/s.
  static constexpr uint64_t kFirstBytes = uint64_t{64} << 10;

  // Of payload, unacknowledged. One message may go out when nothing is on its way, whatever its
  // size.
  uint64_t bytes() const { return bytes_; }
  // A message was acknowledged so long after it was sent; `flight_bytes` were unacknowledged then,
  // its own among them.
  void Acknowledged(uint64_t flight_bytes, absl::Duration latency);
  // After which an answer that has not come was lost more likely than late.
  absl::Duration Patience() const;

 private:
  uint64_t bytes_ = kFirstBytes;
  absl::Duration least_latency_ = absl::InfiniteDuration();
  absl::Duration slow_latency_ = absl::Seconds(1);  // of the slowest lately
};

}  // namespace baton
