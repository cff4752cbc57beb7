#include "common/rpc/silent_streams.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

absl::Status Silent(absl::Status status) {
  return WithErrorInfo(std::move(status), {.reason = kReasonSilentStream});
}

}  // namespace

SilentStreams::SilentStreams(const Limits& limits) : open_(std::make_shared<Open>(limits)) {}

SilentStreams::~SilentStreams() {
  std::map<uint64_t, Stream> streams;  // destroyed without the lock, as the alarm
  std::unique_ptr<grpc::Alarm> alarm;
  absl::MutexLock lock(&open_->mutex);
  streams.swap(open_->streams);
  alarm = std::move(open_->alarm);
}

void SilentStreams::Open::SetAlarm(absl::Time now) {
  alarm = std::make_unique<grpc::Alarm>();
  alarm->Set(DeadlineAfter(streams.begin()->second.overdue - now),
             [open = shared_from_this()](bool expired) {
               if (expired) open->EndOverdue();
             });
}

void SilentStreams::Open::EndOverdue() {
  std::unique_ptr<grpc::Alarm> past;
  std::vector<End> ends;
  {
    absl::MutexLock lock(&mutex);
    past = std::move(alarm);
    const absl::Time now = SteadyNow();
    while (!streams.empty() && streams.begin()->second.overdue <= now) {
      ends.push_back(std::move(streams.begin()->second.end));
      streams.erase(streams.begin());
    }
    if (!streams.empty()) SetAlarm(now);
  }
  for (const End& end : ends) {
    end(Silent(absl::DeadlineExceededError(absl::StrCat(
        "the stream's first message did not come within ", absl::FormatDuration(limits.time)))));
  }
}

uint64_t SilentStreams::Add(End end) {
  Stream oldest;
  uint64_t id = 0;
  {
    absl::MutexLock lock(&open_->mutex);
    if (open_->streams.size() >= open_->limits.streams) {
      oldest = std::move(open_->streams.begin()->second);
      open_->streams.erase(open_->streams.begin());
    }
    id = open_->next_id++;
    const absl::Time now = SteadyNow();
    open_->streams.emplace_hint(open_->streams.end(), id,
                                Stream{.end = std::move(end), .overdue = now + open_->limits.time});
    if (open_->alarm == nullptr) open_->SetAlarm(now);
  }
  if (oldest.end != nullptr) {
    oldest.end(Silent(absl::ResourceExhaustedError(
        absl::StrCat("the stream was closed to make room: it was the oldest of ",
                     open_->limits.streams, " that had not yet sent a message"))));
  }
  return id;
}

void SilentStreams::Spoke(uint64_t id) {
  std::map<uint64_t, Stream>::node_type stream;  // destroyed without the lock
  absl::MutexLock lock(&open_->mutex);
  stream = open_->streams.extract(id);
}

}  // namespace baton
