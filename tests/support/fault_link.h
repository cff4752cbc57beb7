// One direction of a faulty connection, in virtual time. Bytes go in when they are read from one
// socket, and come out when they may be written to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton {

// The faults of one direction.
struct LinkFaults {
  enum class Flow {
    kForward,
    kSwallow,  // reads and drops all bytes: the sender believes that all is well
    kStall,    // reads nothing: the sender's buffers fill up
  };
  absl::Duration delay = {};    // delay of every byte
  absl::Duration jitter = {};   // most further delay, drawn for each read; the order of bytes stays
  double bytes_per_second = 0;  // rate of all connections together; 0: unlimited
  Flow flow = Flow::kForward;
  double flips_per_mib = 0;              // mean number of damaged bits in 2^20 bytes
  double resets_per_mib = 0;             // mean number of connection resets in 2^20 bytes
  std::optional<uint64_t> flip_at = {};  // offset of a byte that is damaged in each connection
};

// Parses any of the words "delay_ms=20 jitter_ms=5 bytes_per_second=12500000 flow=swallow
// flips_per_mib=0.1 resets_per_mib=0.05 flip_at=1000"; faults without a word are off.
// INVALID_ARGUMENT names the word.
absl::StatusOr<LinkFaults> ParseLinkFaults(absl::string_view text);

// The wire that all connections of one direction share. It reads no clock. Not thread-safe.
class SharedWire {
 public:
  // The time at which the last of `bytes` bytes, handed over at `now`, is on the other side.
  absl::Time Depart(size_t bytes, double bytes_per_second, absl::Time now);

 private:
  absl::Time free_at_ = absl::InfinitePast();
};

// One direction of one connection. It reads no clock. Not thread-safe. The same seed and the same
// bytes give the same damage, however reads divide the bytes.
class FaultLink {
 public:
  // Borrows the wire.
  FaultLink(uint64_t seed, SharedWire& wire) : random_(seed), wire_(&wire) {}

  // Sets the faults of the bytes that are pushed from now on. If they swallow, the bytes held are
  // dropped too.
  void SetFaults(const LinkFaults& faults);

  // The number of bytes to read now; 0: none.
  size_t Room() const;
  // Takes bytes that were read. Returns false if the connection is to be reset.
  bool Push(absl::string_view bytes, absl::Time now);
  // Takes the end: the sender has closed its direction.
  void PushEnd(absl::Time now);

  // The bytes that may be written now. Call Consume with the number of those that were written.
  absl::string_view Due(absl::Time now) const;
  void Consume(size_t bytes);
  // Whether all bytes are written and the end is to be sent to the receiver.
  bool EndDue(absl::Time now) const;
  // The next time at which bytes or the end become due. InfiniteFuture: nothing is queued.
  absl::Time NextDue() const;

  uint64_t forwarded_bytes() const { return forwarded_bytes_; }
  uint64_t swallowed_bytes() const { return swallowed_bytes_; }
  uint64_t flips() const { return flips_; }

 private:
  struct Segment {
    std::string bytes;  // empty: the end of the direction
    absl::Time due;
  };
  uint64_t DrawDistance(double per_mib);
  double DrawUnit();  // in (0, 1]

  std::mt19937_64 random_;
  SharedWire* wire_;
  LinkFaults faults_;
  std::deque<Segment> queue_;
  size_t queued_bytes_ = 0;
  size_t written_ = 0;  // bytes of the first segment that are written
  absl::Time last_due_ = absl::InfinitePast();
  uint64_t position_ = 0;                           // number of bytes that came in
  std::optional<uint64_t> next_flip_, next_reset_;  // positions of the next faults
  uint64_t forwarded_bytes_ = 0;
  uint64_t swallowed_bytes_ = 0;
  uint64_t flips_ = 0;
};

}  // namespace baton
