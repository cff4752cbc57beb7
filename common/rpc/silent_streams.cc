#include "common/rpc/silent_streams.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/rpc/status.h"

namespace baton {
namespace {

absl::Status Silent(absl::Status status) {
  return WithErrorInfo(std::move(status), {.reason = kReasonSilentStream});
}

}  // namespace

SilentStreams::SilentStreams(const Limits& limits) : limits_(limits) {}

SilentStreams::~SilentStreams() {
  std::map<uint64_t, Stream> streams;  // destroyed without the lock
  absl::MutexLock lock(&open_->mutex);
  streams.swap(open_->streams);
}

SilentStreams::Stream SilentStreams::Open::Take(uint64_t id) {
  absl::MutexLock lock(&mutex);
  const auto found = streams.find(id);
  if (found == streams.end()) return {};
  Stream stream = std::move(found->second);
  streams.erase(found);
  return stream;
}

uint64_t SilentStreams::Add(End end) {
  Stream oldest;
  uint64_t id = 0;
  {
    absl::MutexLock lock(&open_->mutex);
    if (open_->streams.size() >= limits_.streams) {
      oldest = std::move(open_->streams.begin()->second);
      open_->streams.erase(open_->streams.begin());
    }
    id = open_->next_id++;
    Stream& stream = open_->streams[id];
    stream = {.end = std::move(end), .alarm = std::make_unique<grpc::Alarm>()};
    stream.alarm->Set(
        absl::ToChronoTime(absl::Now() + limits_.time),
        [open = open_, id, limit = limits_.time](bool expired) {
          if (!expired) return;
          const Stream silent = open->Take(id);
          if (silent.end == nullptr) return;
          silent.end(absl::DeadlineExceededError(absl::StrCat(
              "the stream's first message did not come within ", absl::FormatDuration(limit))));
        });
  }
  if (oldest.end != nullptr) {
    oldest.end(Silent(absl::ResourceExhaustedError(absl::StrCat(
        "the stream was the oldest of ", limits_.streams, " that had not sent a message"))));
  }
  return id;
}

void SilentStreams::Spoke(uint64_t id) { open_->Take(id); }

}  // namespace baton
