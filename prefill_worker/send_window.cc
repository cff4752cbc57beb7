#include "prefill_worker/send_window.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {

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
  Assign(message, now);
  return message.stream;
}

int SendWindow::Move(uint64_t sequence_number, absl::Time now) {
  Message& message = messages_.at(sequence_number);
  if (Carries(message.stream)) At(message.stream).bytes -= message.payload_bytes;
  Assign(message, now);
  return message.stream;
}

void SendWindow::Assign(Message& message, absl::Time now) {
  size_t least = 0;
  for (size_t stream = 1; stream < streams_.size(); ++stream) {
    if (streams_[stream].open && streams_[stream].bytes < streams_[least].bytes) least = stream;
  }
  Stream& stream = streams_[least];
  if (stream.bytes == 0) stream.last_answer = now;
  stream.bytes += message.payload_bytes;
  message.stream = static_cast<int>(least);
}

bool SendWindow::Acknowledge(uint64_t sequence_number) {
  const auto found = messages_.find(sequence_number);
  if (found == messages_.end()) return false;
  At(found->second.stream).bytes -= found->second.payload_bytes;
  bytes_ -= found->second.payload_bytes;
  messages_.erase(found);
  return true;
}

SendWindow::Message* SendWindow::Find(uint64_t sequence_number) {
  const auto found = messages_.find(sequence_number);
  return found == messages_.end() ? nullptr : &found->second;
}

void SendWindow::Clear() {
  messages_.clear();
  bytes_ = 0;
  for (Stream& stream : streams_) stream.bytes = 0;
}

void SendWindow::Answered(int stream, absl::Time now) { At(stream).last_answer = now; }

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
