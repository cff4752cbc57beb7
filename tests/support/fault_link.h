// One direction of a faulty connection, in virtual time: bytes go in when they are read from one
// socket and come out when they may be written to the other.
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

// What is wrong with one direction.
struct LinkFaults {
  enum class Flow {
    kForward,
    kSwallow,  // reads on and drops: the sender believes that all is well
    kStall,    // reads nothing: the sender's buffers fill
  };
  absl::Duration delay = {};    // of every byte
  absl::Duration jitter = {};   // at most so much more, drawn for each read; the order stays
  double bytes_per_second = 0;  // of all connections together; 0: unlimited
  Flow flow = Flow::kForward;
  double flips_per_mib = 0;              // damaged bits, on average; 2^20 bytes a MiB
  double resets_per_mib = 0;             // connections reset, on average
  std::optional<uint64_t> flip_at = {};  // damages this byte of each connection
};

// "delay_ms=20 jitter_ms=5 bytes_per_second=12500000 flow=swallow flips_per_mib=0.1
// resets_per_mib=0.05 flip_at=1000": any of them, the rest is off. INVALID_ARGUMENT names the word.
absl::StatusOr<LinkFaults> ParseLinkFaults(absl::string_view text);

// The wire that all connections of one direction share. Pure; not thread-safe.
class SharedWire {
 public:
  // When the last of `bytes`, handed over at `now`, is on the other side.
  absl::Time Depart(size_t bytes, double bytes_per_second, absl::Time now);

 private:
  absl::Time free_at_ = absl::InfinitePast();
};

// Pure; not thread-safe; no clock inside. The same seed and the same bytes meet the same damage,
// however the reads cut them.
class FaultLink {
 public:
  // Borrows the wire.
  FaultLink(uint64_t seed, SharedWire& wire) : random_(seed), wire_(&wire) {}

  // For what is pushed from here on. A link that begins to swallow drops what it holds too.
  void SetFaults(const LinkFaults& faults);

  // How many bytes to read now; 0: none.
  size_t Room() const;
  // False: the connection is to be reset.
  bool Push(absl::string_view bytes, absl::Time now);
  // The sender has closed its direction.
  void PushEnd(absl::Time now);

  // What may be written now; `Consume` what was.
  absl::string_view Due(absl::Time now) const;
  void Consume(size_t bytes);
  // The end, and nothing before it: to be told to the receiver.
  bool EndDue(absl::Time now) const;
  // When something is due that is not now. InfiniteFuture: nothing is queued.
  absl::Time NextDue() const;

  uint64_t forwarded_bytes() const { return forwarded_bytes_; }
  uint64_t swallowed_bytes() const { return swallowed_bytes_; }
  uint64_t flips() const { return flips_; }

 private:
  struct Segment {
    std::string bytes;  // empty: the end
    absl::Time due;
  };
  uint64_t DrawDistance(double per_mib);
  double DrawUnit();  // in (0, 1]

  std::mt19937_64 random_;
  SharedWire* wire_;
  LinkFaults faults_;
  std::deque<Segment> queue_;
  size_t queued_bytes_ = 0;
  size_t written_ = 0;  // of the first segment
  absl::Time last_due_ = absl::InfinitePast();
  uint64_t position_ = 0;                           // bytes that came in
  std::optional<uint64_t> next_flip_, next_reset_;  // positions
  uint64_t forwarded_bytes_ = 0;
  uint64_t swallowed_bytes_ = 0;
  uint64_t flips_ = 0;
};

}  // namespace baton
