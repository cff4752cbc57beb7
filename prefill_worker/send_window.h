// Keeps the messages of a push that were sent and not acknowledged yet, and the streams that carry
// them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "prefill_worker/flight_limit.h"

namespace baton {

// A message goes to the stream with the fewest unacknowledged bytes, and among equal ones to the
// lowest, so the stream depends on nothing but earlier events. Stream 0 is the push's own and
// always open.
//
// A stream loses nothing while it lives, and its answers come about in the order of its messages.
// But an answer that was damaged on its way may name another message, or none. So an answer that
// does not come is missed, and its message is repeated. The receiver drops a message that it has
// already, and acknowledges it.
//
// Does no I/O and reads no clock. Not thread-safe.
class SendWindow {
 public:
  struct Message {
    internal::v1::KvDataHeader header;
    size_t payload_bytes = 0;
    int resends = 0;  // sendings that the receiver asked for
    int repeats = 0;  // sendings because the answer was missed
    int stream = 0;
    uint64_t place = 0;  // place in the order of all sendings, ascending
    absl::Time sent;     // time of the last sending
    // Payload bytes that were unacknowledged when it was first sent, its own among them; 0 once it
    // was sent again.
    uint64_t flight_bytes = 0;
    int overtaken = 0;  // later messages of its stream that were acknowledged
  };
  enum class Answer {
    kAcknowledged,
    kRepeated,  // the second answer to a message that was repeated
    kUnknown,   // a damaged answer: it names no message, or one that was acknowledged before
  };

  SendWindow() : streams_(1) {}

  // Streams 0 to count - 1 carry messages from here on.
  void OpenStreams(int count) { streams_.resize(static_cast<size_t>(count)); }
  int stream_count() const { return static_cast<int>(streams_.size()); }
  bool Carries(int stream) const;
  // The stream carries nothing any more. Returns the messages that it did not acknowledge, which
  // the caller gives to other streams with Move. REQUIRES: stream > 0, and it carries messages.
  std::vector<uint64_t> CloseStream(int stream);

  // Adds a new message and returns the stream to send it on.
  int Add(const internal::v1::KvDataHeader& header, size_t payload_bytes, absl::Time now);
  // Returns the stream to send a message on once more that its stream has lost or damaged.
  int Move(uint64_t sequence_number, absl::Time now);
  // The message is sent once more on its stream.
  void Repeat(uint64_t sequence_number, absl::Time now);
  Answer Acknowledge(uint64_t sequence_number, int stream, absl::Time now);
  // Null unless the message is unacknowledged.
  Message* Find(uint64_t sequence_number);
  void Clear();

  // The message that `stream` carries longest; none if it was repeated often enough.
  std::optional<uint64_t> Oldest(int stream) const;
  // The oldest message of a stream whose answer is missed: several later messages of the stream
  // were answered, or for long no message was. The lowest such stream counts.
  std::optional<uint64_t> Missed(absl::Time now) const;
  // When the next answer will be missed if none comes.
  absl::Time NextMissed() const;

  // The stream answered something.
  void Answered(int stream, absl::Time now);
  // The lowest stream that has not answered for `timeout` though it carries something.
  std::optional<int> Silent(absl::Duration timeout, absl::Time now) const;
  // When a stream will have been silent for `timeout`.
  absl::Time NextSilence(absl::Duration timeout) const;

  bool empty() const { return messages_.empty(); }
  uint64_t bytes() const { return bytes_; }  // unacknowledged payload bytes
  uint64_t flight_limit_bytes() const { return flight_limit_.bytes(); }
  const std::map<uint64_t, Message>& messages() const { return messages_; }

 private:
  friend struct MachineState;  // a test compares states with it
  struct Stream {
    bool open = true;
    uint64_t bytes = 0;      // unacknowledged payload bytes
    absl::Time last_answer;  // time of the last answer, or since when it carries something
    absl::Time last_repeat = absl::InfinitePast();
    int repeats = 0;  // since the last answer
  };
  Stream& At(int stream) { return streams_[static_cast<size_t>(stream)]; }
  const Stream& At(int stream) const { return streams_[static_cast<size_t>(stream)]; }
  void Assign(Message& message, absl::Time now);
  const Message* OldestOf(int stream) const;
  absl::Time MissedAt(int stream) const;

  std::vector<Stream> streams_;
  std::map<uint64_t, Message> messages_;  // unacknowledged messages by sequence number
  std::map<uint64_t, int> repeated_;      // second answers that may still come, by sequence number
  uint64_t bytes_ = 0;
  uint64_t next_place_ = 0;
  FlightLimit flight_limit_;
};

}  // namespace baton
