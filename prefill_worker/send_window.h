// What a push has sent and nobody has acknowledged yet, and the streams that carry it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "prefill_worker/flight_limit.h"

namespace baton {

// Pure; not thread-safe. A message goes to the stream with the least unacknowledged bytes, the
// lowest of these, so where it goes depends on nothing but what happened before. Stream 0 is the
// push's own and always there.
//
// A stream loses nothing while it lives, and its answers come about in the order of its messages;
// but an answer that was damaged on its way may name another message, or none. So one that does not
// come is missed, and its message repeated: the receiver drops what it has, and acknowledges it.
class SendWindow {
 public:
  struct Message {
    internal::v1::KvDataHeader header;
    size_t payload_bytes = 0;
    int resends = 0;  // asked for by the receiver
    int repeats = 0;  // because its answer was missed
    int stream = 0;
    uint64_t place = 0;         // among all that was sent; ascending
    absl::Time sent;            // last
    uint64_t flight_bytes = 0;  // unacknowledged when it was sent first, with it; 0: sent again
    int overtaken = 0;          // later ones of its stream that were acknowledged
  };
  enum class Answer {
    kAcknowledged,
    kRepeated,  // of a message that was repeated: the other answer came before
    kUnknown,   // of none that was sent, or of one that was acknowledged: it was damaged
  };

  SendWindow() : streams_(1) {}

  // Streams 0 to count - 1 carry messages from here on.
  void OpenStreams(int count) { streams_.resize(static_cast<size_t>(count)); }
  bool Carries(int stream) const;
  // The stream carries nothing any more: the messages that it did not acknowledge, to be given to
  // others with Move. REQUIRES: stream > 0.
  std::vector<uint64_t> CloseStream(int stream);

  // The stream to send a message on that is new, or that its stream has lost or damaged.
  int Add(const internal::v1::KvDataHeader& header, size_t payload_bytes, absl::Time now);
  int Move(uint64_t sequence_number, absl::Time now);
  // The message is sent once more on its stream.
  void Repeat(uint64_t sequence_number, absl::Time now);
  Answer Acknowledge(uint64_t sequence_number, int stream, absl::Time now);
  Message* Find(uint64_t sequence_number);
  void Clear();

  // The message that `stream` carries longest; none where it was repeated often enough.
  std::optional<uint64_t> Oldest(int stream) const;
  // The same, where its answer is missed: later ones of the stream were answered, or none for long.
  std::optional<uint64_t> Missed(absl::Time now) const;
  // When that will be so if nothing is answered.
  absl::Time NextMissed() const;

  // The stream answered something.
  void Answered(int stream, absl::Time now);
  // A stream that has not answered for `timeout` though it carries something; the lowest of them.
  std::optional<int> Silent(absl::Duration timeout, absl::Time now) const;
  // When one will be silent for so long.
  absl::Time NextSilence(absl::Duration timeout) const;

  bool empty() const { return messages_.empty(); }
  uint64_t bytes() const { return bytes_; }  // of payload
  uint64_t flight_limit_bytes() const { return flight_limit_.bytes(); }
  const std::map<uint64_t, Message>& messages() const { return messages_; }

 private:
  friend struct MachineState;  // of a test that compares states
  struct Stream {
    bool open = true;
    uint64_t bytes = 0;      // of payload, unacknowledged
    absl::Time last_answer;  // or since when it carries something
    absl::Time last_repeat = absl::InfinitePast();
    int repeats = 0;  // since the last answer
  };
  Stream& At(int stream) { return streams_[static_cast<size_t>(stream)]; }
  const Stream& At(int stream) const { return streams_[static_cast<size_t>(stream)]; }
  void Assign(Message& message, absl::Time now);
  const Message* OldestOf(int stream) const;
  absl::Time MissedAt(int stream) const;

  std::vector<Stream> streams_;
  std::map<uint64_t, Message> messages_;  // by sequence number
  std::map<uint64_t, int> repeated_;      // by sequence number: answers that may still come
  uint64_t bytes_ = 0;
  uint64_t next_place_ = 0;
  FlightLimit flight_limit_;
};

}  // namespace baton
