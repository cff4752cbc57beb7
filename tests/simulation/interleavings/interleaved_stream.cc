#include "tests/simulation/interleavings/interleaved_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {

using internal::v1::PushRequest;
using internal::v1::PushResponse;

void InterleavedStream::Open(const PushRequest& first) {
  prefill_open_ = decode_open_ = true;
  to_decode_.emplace_back().control = first;
}

void InterleavedStream::SendControl(const PushRequest& message, bool drops_queued) {
  if (!prefill_open_ || half_closed_) return;
  if (drops_queued) {
    std::erase_if(to_decode_, [this](const Message& queued) {
      released_slices_ += queued.is_data ? 1 : 0;
      return queued.is_data;
    });
  }
  to_decode_.emplace_back().control = message;
}

void InterleavedStream::SendData(const internal::v1::KvDataHeader& header, size_t payload_bytes) {
  ++live_slices_;
  if (!prefill_open_ || half_closed_) {
    ++released_slices_;
    return;
  }
  Message& message = to_decode_.emplace_back();
  message.is_data = true;
  message.header = header;
  message.payload_bytes = payload_bytes;
}

void InterleavedStream::HalfClose() {
  half_closed_ = true;
  to_decode_.emplace_back().half_close = true;
}

PushResponse InterleavedStream::TakeAnswer() {
  PushResponse answer = std::move(to_prefill_.front());
  to_prefill_.pop_front();
  return answer;
}

void InterleavedStream::ReleaseOne() {
  --released_slices_;
  --live_slices_;
}

InterleavedStream::Message InterleavedStream::TakeMessage() {
  Message message = std::move(to_decode_.front());
  to_decode_.pop_front();
  released_slices_ += message.is_data ? 1 : 0;
  if (message.half_close) End();
  return message;
}

void InterleavedStream::Answer(const PushResponse& answer) {
  if (decode_open_ && prefill_open_) to_prefill_.push_back(answer);
}

void InterleavedStream::EndAfterAnswers() {
  decode_open_ = false;
  if (prefill_open_) prefill_notice_ = true;
}

void InterleavedStream::End() {
  for (const Message& message : std::exchange(to_decode_, {})) {
    released_slices_ += message.is_data ? 1 : 0;
  }
  if (prefill_open_) prefill_notice_ = true;
  if (std::exchange(decode_open_, false)) decode_notice_ = true;
}

void InterleavedStream::LosePrefill() {
  prefill_open_ = prefill_notice_ = false;
  to_decode_.clear();
  to_prefill_.clear();
  live_slices_ = released_slices_ = 0;
  if (std::exchange(decode_open_, false)) decode_notice_ = true;
}

void InterleavedStream::LoseDecode() {
  decode_open_ = decode_notice_ = false;
  to_prefill_.clear();
  if (prefill_open_) prefill_notice_ = true;
}

void InterleavedStream::AppendState(std::string& out) const {
  absl::StrAppend(&out, prefill_open_, ",", decode_open_, ",", prefill_notice_, ",");
  absl::StrAppend(&out, decode_notice_, ",", half_closed_, ",");
  for (const Message& message : to_decode_) {
    absl::StrAppend(&out, message.is_data, ",", message.half_close, ",");
    out += message.control.SerializeAsString();
    out += message.header.SerializeAsString();
  }
  for (const PushResponse& answer : to_prefill_) out += answer.SerializeAsString();
  absl::StrAppend(&out, live_slices_, ",", released_slices_, ",");
}

}  // namespace baton
