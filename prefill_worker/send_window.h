// What a push has sent and nobody has acknowledged yet, and the streams that carry it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"

namespace baton {

// Pure; not thread-safe. A message goes to the stream with the least unacknowledged bytes, the
// lowest of these, so where it goes depends on nothing but what happened before. Stream 0 is the
// push's own and always there.
class SendWindow {
 public:
  struct Message {
    internal::v1::KvDataHeader header;
    size_t payload_bytes = 0;
    int resends = 0;  // asked for by the receiver
    int stream = 0;
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
  // False for a message that is not unacknowledged.
  bool Acknowledge(uint64_t sequence_number);
  Message* Find(uint64_t sequence_number);
  void Clear();

  // The stream answered something.
  void Answered(int stream, absl::Time now);
  // A stream that has not answered for `timeout` though it carries something; the lowest of them.
  std::optional<int> Silent(absl::Duration timeout, absl::Time now) const;
  // When one will be silent for so long.
  absl::Time NextSilence(absl::Duration timeout) const;

  bool empty() const { return messages_.empty(); }
  uint64_t bytes() const { return bytes_; }  // of payload
  const std::map<uint64_t, Message>& messages() const { return messages_; }

 private:
  struct Stream {
    bool open = true;
    uint64_t bytes = 0;      // of payload, unacknowledged
    absl::Time last_answer;  // or since when it carries something
  };
  Stream& At(int stream) { return streams_[static_cast<size_t>(stream)]; }
  void Assign(Message& message, absl::Time now);

  std::vector<Stream> streams_;
  std::map<uint64_t, Message> messages_;  // by sequence number
  uint64_t bytes_ = 0;
};

}  // namespace baton
