#include "router/http/output_queue.h"

#include <utility>

namespace baton {
namespace {

constexpr size_t kBytesPerTurn = size_t{256} << 10;
// Pieces of at most this size together are joined, since each piece is written by itself.
constexpr size_t kJoinedBytes = size_t{16} << 10;

}  // namespace

void OutputQueue::Append(std::string bytes, Written written) {
  appended_bytes_ += bytes.size();
  if (!pieces_.empty() && pieces_.back().size() + bytes.size() <= kJoinedBytes) {
    pieces_.back() += bytes;
  } else if (!bytes.empty()) {
    pieces_.push_back(std::move(bytes));
  }
  if (written) waiting_.push_back({.end = appended_bytes_, .written = std::move(written)});
}

ByteStream::Result OutputQueue::Flush(ByteStream& stream) {
  ByteStream::Result result;
  size_t written = 0;
  while (!empty() && written < kBytesPerTurn) {
    result = stream.Write(absl::string_view(pieces_.front()).substr(begin_));
    if (result.outcome != ByteStream::Outcome::kDone) break;
    begin_ += result.bytes;
    written += result.bytes;
    if (begin_ == pieces_.front().size()) {
      pieces_.pop_front();
      begin_ = 0;
    }
  }
  written_bytes_ += written;
  result.bytes = written;
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
  pieces_.clear();
  begin_ = 0;
  written_bytes_ = appended_bytes_;
  const std::vector<Waiting> failed = std::exchange(waiting_, {});
  for (const Waiting& waiting : failed) waiting.written(false);
}

}  // namespace baton
