// Limits how much of a push may be unacknowledged at once, by how soon earlier messages were
// acknowledged.
//
// Bytes that wait for the network wait below this program, in gRPC and in the kernel, and a
// keepalive ping waits behind them. On a slow link, megabytes there would make a living connection
// look dead. So no more is handed down than earlier messages have shown to be delivered in about
// half a second.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace baton {

// Pure; not thread-safe.
class FlightLimit {
 public:
  // The limit before anything is known: what 1 Mbit/s carries in half a second.
  static constexpr uint64_t kFirstBytes = uint64_t{64} << 10;

  // Most payload bytes that may be unacknowledged. The caller may exceed it by one message when
  // nothing is on its way.
  uint64_t bytes() const { return bytes_; }
  // A message was acknowledged `latency` after it was sent. `flight_bytes` of payload, the
  // message's own among them, were unacknowledged when it was sent.
  void Acknowledged(uint64_t flight_bytes, absl::Duration latency);
  // The time after which a missing answer is more likely lost than late.
  absl::Duration Patience() const;

 private:
  uint64_t bytes_ = kFirstBytes;
  absl::Duration least_latency_ = absl::InfiniteDuration();
  absl::Duration slow_latency_ = absl::Seconds(1);  // the highest latency lately, slowly forgotten
};

}  // namespace baton
