#include "router/http/output_queue.h"

#include <utility>

namespace baton {
namespace {

constexpr size_t kBytesPerTurn = size_t{256} << 10;

}  // namespace

void OutputQueue::Append(std::string bytes, Written written) {
  appended_bytes_ += bytes.size();
  if (empty()) {
    begin_ = 0;
    bytes_ = std::move(bytes);
  } else {
    if (begin_ > bytes_.size() / 2) {
      bytes_.erase(0, begin_);
      begin_ = 0;
    }
    bytes_ += bytes;
  }
  if (written) waiting_.push_back({.end = appended_bytes_, .written = std::move(written)});
}

ByteStream::Result OutputQueue::Flush(ByteStream& stream) {
  ByteStream::Result result;
  size_t written = 0;
  while (!empty() && written < kBytesPerTurn) {
    result = stream.Write(absl::string_view(bytes_).substr(begin_));
    if (result.outcome != ByteStream::Outcome::kDone) break;
    begin_ += result.bytes;
    written += result.bytes;
  }
  written_bytes_ += written;
  result.bytes = written;
  if (empty()) {
    bytes_ = std::string();
    begin_ = 0;
  }
  CallWritten();
  return result;
}

void OutputQueue::CallWritten() {
  while (!waiting_.empty() && waiting_.front().end <= written_bytes_) {
    const Written written = std::move(waiting_.front().written);
    waiting_.erase(waiting_.begin());
    written(true);
  }
}

void OutputQueue::Fail() {
  bytes_ = std::string();
  begin_ = 0;
  written_bytes_ = appended_bytes_;
  const std::vector<Waiting> failed = std::exchange(waiting_, {});
  for (const Waiting& waiting : failed) waiting.written(false);
}

}  // namespace baton
