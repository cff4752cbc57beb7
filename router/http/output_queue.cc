#include "router/http/output_queue.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

constexpr size_t kBytesPerTurn = size_t{256} << 10;
// Pieces of at most this size together are joined, since each piece is written by itself.
constexpr size_t kJoinedBytes = size_t{16} << 10;
constexpr size_t kCutBytes = size_t{64} << 10;  // bytes of a cord that are copied at a time

}  // namespace

void OutputQueue::Append(std::string bytes, Written written) {
  appended_bytes_ += bytes.size();
  if (!pieces_.empty() && pieces_.back().more.empty() &&
      pieces_.back().bytes.size() + bytes.size() <= kJoinedBytes) {
    pieces_.back().bytes += bytes;
  } else if (!bytes.empty()) {
    pieces_.push_back({.bytes = std::move(bytes)});
  }
  if (written) waiting_.push_back({.end = appended_bytes_, .written = std::move(written)});
}

void OutputQueue::Append(absl::Cord bytes, Written written) {
  appended_bytes_ += bytes.size();
  if (!bytes.empty()) {
    pieces_.push_back({.bytes = "", .more = std::move(bytes)});
    Cut(pieces_.back());
  }
  if (written) waiting_.push_back({.end = appended_bytes_, .written = std::move(written)});
}

void OutputQueue::Cut(Piece& piece) {
  const size_t bytes = std::min(piece.more.size(), kCutBytes);
  piece.bytes = std::string(piece.more.Subcord(0, bytes));
  piece.more.RemovePrefix(bytes);
}

ByteStream::Result OutputQueue::Flush(ByteStream& stream) {
  ByteStream::Result result;
  size_t written = 0;
  while (!empty() && written < kBytesPerTurn) {
    Piece& first = pieces_.front();
    result = stream.Write(absl::string_view(first.bytes).substr(begin_));
    if (result.outcome != ByteStream::Outcome::kDone) break;
    begin_ += result.bytes;
    written += result.bytes;
    if (begin_ < first.bytes.size()) continue;
    begin_ = 0;
    first.more.empty() ? pieces_.pop_front() : Cut(first);
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
