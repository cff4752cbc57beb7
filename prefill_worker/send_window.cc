#include "prefill_worker/send_window.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {
namespace {

// The receiver's copies into the cache may end in another order than they began, but hardly later
// than this many others.
constexpr int kMaxOvertaken = 8;
constexpr int kMaxRepeats = 3;

}  // namespace

using internal::v1::KvDataHeader;

bool SendWindow::Carries(int stream) const {
  return stream >= 0 && static_cast<size_t>(stream) < streams_.size() &&
         streams_[static_cast<size_t>(stream)].open;
}

std::vector<uint64_t> SendWindow::CloseStream(int stream) {
  BATON_CHECK(stream > 0 && Carries(stream), "a joined stream that is open");
  At(stream).open = false;
  At(stream).bytes = 0;
  std::vector<uint64_t> left;
  for (const auto& [sequence_number, message] : messages_) {
    if (message.stream == stream) left.push_back(sequence_number);
  }
  return left;
}

int SendWindow::Add(const KvDataHeader& header, size_t payload_bytes, absl::Time now) {
  Message& message = messages_[header.sequence_number()];
  message.header = header;
  message.payload_bytes = payload_bytes;
  bytes_ += payload_bytes;
  message.flight_bytes = bytes_;
  Assign(message, now);
  return message.stream;
}

int SendWindow::Move(uint64_t sequence_number, absl::Time now) {
  Message& message = messages_.at(sequence_number);
  if (Carries(message.stream)) At(message.stream).bytes -= message.payload_bytes;
  message.flight_bytes = 0;
  Assign(message, now);
  return message.stream;
}

void SendWindow::Assign(Message& message, absl::Time now) {
  size_t least = 0;
  for (size_t stream = 1; stream < streams_.size(); ++stream) {
    if (streams_[stream].open && streams_[stream].bytes < streams_[least].bytes) least = stream;
  }
  Stream& stream = streams_[least];
  if (stream.bytes == 0) {
    stream.last_answer = now;
    stream.repeats = 0;
  }
  stream.bytes += message.payload_bytes;
  message.stream = static_cast<int>(least);
  message.place = next_place_++;
  message.sent = now;
  message.overtaken = 0;
}

void SendWindow::Repeat(uint64_t sequence_number, absl::Time now) {
  Message& message = messages_.at(sequence_number);
  ++message.repeats;
  ++repeated_[sequence_number];
  message.flight_bytes = 0;  // an answer may be for either sending
  message.place = next_place_++;
  message.sent = now;
  message.overtaken = 0;
  At(message.stream).last_repeat = now;
  ++At(message.stream).repeats;
}

SendWindow::Answer SendWindow::Acknowledge(uint64_t sequence_number, int stream, absl::Time now) {
  const auto found = messages_.find(sequence_number);
  if (found == messages_.end()) {
    const auto repeated = repeated_.find(sequence_number);
    if (repeated == repeated_.end()) return Answer::kUnknown;
    if (--repeated->second == 0) repeated_.erase(repeated);
    return Answer::kRepeated;
  }
  const Message message = std::move(found->second);
  messages_.erase(found);
  At(message.stream).bytes -= message.payload_bytes;
  bytes_ -= message.payload_bytes;
  if (message.stream != stream) return Answer::kAcknowledged;
  if (message.flight_bytes > 0)
    flight_limit_.Acknowledged(message.flight_bytes, now - message.sent);
  for (auto& [number, earlier] : messages_) {
    if (earlier.stream == stream && earlier.place < message.place) ++earlier.overtaken;
  }
  return Answer::kAcknowledged;
}

SendWindow::Message* SendWindow::Find(uint64_t sequence_number) {
  const auto found = messages_.find(sequence_number);
  return found == messages_.end() ? nullptr : &found->second;
}

void SendWindow::Clear() {
  messages_.clear();
  repeated_.clear();
  bytes_ = 0;
  for (Stream& stream : streams_) stream.bytes = 0;
}

const SendWindow::Message* SendWindow::OldestOf(int stream) const {
  const Message* oldest = nullptr;
  for (const auto& [number, message] : messages_) {
    if (message.stream != stream) continue;
    if (oldest == nullptr || message.place < oldest->place) oldest = &message;
  }
  return oldest;
}

std::optional<uint64_t> SendWindow::Oldest(int stream) const {
  const Message* oldest = OldestOf(stream);
  if (oldest == nullptr || oldest->repeats >= kMaxRepeats) return std::nullopt;
  return oldest->header.sequence_number();
}

absl::Time SendWindow::MissedAt(int stream) const {
  const Stream& of = At(stream);
  const Message* oldest = of.bytes > 0 && of.repeats < kMaxRepeats ? OldestOf(stream) : nullptr;
  if (oldest == nullptr || oldest->repeats >= kMaxRepeats) return absl::InfiniteFuture();
  if (oldest->overtaken >= kMaxOvertaken) return absl::InfinitePast();
  // The wait doubles with each repeat, because repeats in vain are in the way of other messages.
  return std::max({of.last_answer, of.last_repeat, oldest->sent}) +
         flight_limit_.Patience() * (1 << of.repeats);
}

std::optional<uint64_t> SendWindow::Missed(absl::Time now) const {
  for (size_t stream = 0; stream < streams_.size(); ++stream) {
    const auto index = static_cast<int>(stream);
    if (MissedAt(index) <= now) return Oldest(index);
  }
  return std::nullopt;
}

absl::Time SendWindow::NextMissed() const {
  absl::Time next = absl::InfiniteFuture();
  for (size_t stream = 0; stream < streams_.size(); ++stream) {
    next = std::min(next, MissedAt(static_cast<int>(stream)));
  }
  return next;
}

void SendWindow::Answered(int stream, absl::Time now) {
  At(stream).last_answer = now;
  At(stream).repeats = 0;
}

std::optional<int> SendWindow::Silent(absl::Duration timeout, absl::Time now) const {
  for (size_t stream = 0; stream < streams_.size(); ++stream) {
    if (streams_[stream].bytes > 0 && streams_[stream].last_answer + timeout <= now) {
      return static_cast<int>(stream);
    }
  }
  return std::nullopt;
}

absl::Time SendWindow::NextSilence(absl::Duration timeout) const {
  absl::Time next = absl::InfiniteFuture();
  for (const Stream& stream : streams_) {
    if (stream.bytes > 0) next = std::min(next, stream.last_answer + timeout);
  }
  return next;
}

}  // namespace baton
