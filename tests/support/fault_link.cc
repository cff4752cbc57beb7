#include "tests/support/fault_link.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

constexpr double kMib = 1 << 20;
constexpr size_t kMaxRead = size_t{16} << 10;  // 1.3 ms of 100 Mbit/s
constexpr size_t kMinQueue = size_t{64} << 10;
constexpr size_t kMaxQueue = size_t{16} << 20;
// Time for which bytes are held in advance, so that a proxy that wakes up late still keeps its
// rate.
constexpr absl::Duration kSlack = absl::Milliseconds(50);

absl::Status SetFlow(absl::string_view value, LinkFaults& faults) {
  using Flow = LinkFaults::Flow;
  for (const auto& [name, flow] : {std::pair("forward", Flow::kForward),
                                   {"swallow", Flow::kSwallow},
                                   {"stall", Flow::kStall}}) {
    if (value != name) continue;
    faults.flow = flow;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("flow=", value, " is not one of forward, swallow, stall"));
}

}  // namespace

absl::StatusOr<LinkFaults> ParseLinkFaults(absl::string_view text) {
  LinkFaults faults;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(word, '=');
    const auto& [name, value] = pair;
    if (name == "flow") {
      if (absl::Status status = SetFlow(value, faults); !status.ok()) return status;
      continue;
    }
    double number = 0;
    if (!absl::SimpleAtod(value, &number) || !(number >= 0)) {
      return absl::InvalidArgumentError(absl::StrCat(word, ": not a number of at least 0"));
    }
    if (name == "delay_ms") {
      faults.delay = absl::Milliseconds(number);
    } else if (name == "jitter_ms") {
      faults.jitter = absl::Milliseconds(number);
    } else if (name == "bytes_per_second") {
      faults.bytes_per_second = number;
    } else if (name == "flips_per_mib") {
      faults.flips_per_mib = number;
    } else if (name == "resets_per_mib") {
      faults.resets_per_mib = number;
    } else if (name == "flip_at") {
      faults.flip_at = static_cast<uint64_t>(number);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(word, ": no such fault"));
    }
  }
  return faults;
}

absl::Time SharedWire::Depart(size_t bytes, double bytes_per_second, absl::Time now) {
  if (bytes_per_second <= 0) return now;
  free_at_ = std::max(free_at_, now) + absl::Seconds(static_cast<double>(bytes) / bytes_per_second);
  return free_at_;
}

void FaultLink::SetFaults(const LinkFaults& faults) {
  faults_ = faults;
  next_flip_ = faults.flip_at;
  if (faults.flips_per_mib > 0) next_flip_ = position_ + DrawDistance(faults.flips_per_mib);
  next_reset_.reset();
  if (faults.resets_per_mib > 0) next_reset_ = position_ + DrawDistance(faults.resets_per_mib);
  if (faults.flow != LinkFaults::Flow::kSwallow) return;
  swallowed_bytes_ += queued_bytes_ - written_;
  queue_.clear();
  queued_bytes_ = written_ = 0;
}

size_t FaultLink::Room() const {
  if (faults_.flow == LinkFaults::Flow::kStall) return 0;
  if (faults_.flow == LinkFaults::Flow::kSwallow) return kMaxRead;
  size_t limit = kMaxQueue;
  if (faults_.bytes_per_second > 0) {
    const absl::Duration under_way = faults_.delay + faults_.jitter + kSlack;
    const double bytes = faults_.bytes_per_second * absl::ToDoubleSeconds(under_way);
    limit = static_cast<size_t>(std::clamp<double>(bytes, kMinQueue, kMaxQueue));
  }
  return queued_bytes_ >= limit ? 0 : std::min(kMaxRead, limit - queued_bytes_);
}

bool FaultLink::Push(absl::string_view bytes, absl::Time now) {
  const uint64_t begin = position_;
  position_ += bytes.size();
  if (faults_.flow == LinkFaults::Flow::kSwallow) {
    swallowed_bytes_ += bytes.size();
    return true;
  }
  if (next_reset_.has_value() && *next_reset_ < position_) return false;
  Segment segment{std::string(bytes), {}};
  while (next_flip_.has_value() && *next_flip_ < position_) {
    if (*next_flip_ >= begin) {
      segment.bytes[*next_flip_ - begin] ^= static_cast<char>(1 << random_() % 8);
      ++flips_;
    }
    const uint64_t flipped = std::max(*next_flip_, begin);
    next_flip_.reset();
    if (faults_.flips_per_mib > 0) next_flip_ = flipped + DrawDistance(faults_.flips_per_mib);
  }
  segment.due = wire_->Depart(bytes.size(), faults_.bytes_per_second, now) + faults_.delay;
  if (faults_.jitter > absl::ZeroDuration()) segment.due += DrawUnit() * faults_.jitter;
  last_due_ = segment.due = std::max(segment.due, last_due_);
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(segment));
  return true;
}

void FaultLink::PushEnd(absl::Time now) {
  if (faults_.flow != LinkFaults::Flow::kForward) return;
  queue_.push_back({"", std::max(now + faults_.delay, last_due_)});
}

absl::string_view FaultLink::Due(absl::Time now) const {
  if (queue_.empty() || queue_.front().due > now || faults_.flow == LinkFaults::Flow::kStall) {
    return {};
  }
  return absl::string_view(queue_.front().bytes).substr(written_);
}

void FaultLink::Consume(size_t bytes) {
  written_ += bytes;
  forwarded_bytes_ += bytes;
  if (queue_.empty() || written_ < queue_.front().bytes.size()) return;
  queued_bytes_ -= written_;
  written_ = 0;
  queue_.pop_front();
}

bool FaultLink::EndDue(absl::Time now) const {
  return !queue_.empty() && queue_.front().bytes.empty() && queue_.front().due <= now &&
         faults_.flow == LinkFaults::Flow::kForward;
}

absl::Time FaultLink::NextDue() const {
  if (queue_.empty() || faults_.flow == LinkFaults::Flow::kStall) return absl::InfiniteFuture();
  return queue_.front().due;
}

uint64_t FaultLink::DrawDistance(double per_mib) {
  return 1 + static_cast<uint64_t>(-std::log(DrawUnit()) * kMib / per_mib);
}

double FaultLink::DrawUnit() { return static_cast<double>((random_() >> 11) + 1) * 0x1p-53; }

}  // namespace baton
