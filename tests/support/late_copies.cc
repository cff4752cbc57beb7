#include "tests/support/late_copies.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr int kPoison = 0xDB;

}  // namespace

LateCopies::~LateCopies() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  while (EndOne()) {
  }
  BATON_CHECK(pinned_.empty(), "pinned memory is given back before");
}

void LateCopies::StartThread() {
  thread_ = std::thread([this] { Run(); });
}

void LateCopies::Run() {
  while (true) {
    std::chrono::microseconds pause;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !pending_.empty(); });
      if (stop_) return;
      pause = std::chrono::microseconds(random_() % 300);
    }
    std::this_thread::sleep_for(pause);
    EndOne();
  }
}

bool LateCopies::EndOne() {
  Pending ended;
  {
    const std::lock_guard lock(mutex_);
    if (pending_.empty()) return false;
    const size_t index = random_() % pending_.size();
    ended = std::move(pending_[index]);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  for (const DeviceCopy& copy : ended.copies) {
    if (ended.to_host) {
      std::memcpy(copy.host, Near(copy.device), copy.bytes);
    } else {
      std::memcpy(Near(copy.device), copy.host, copy.bytes);
    }
  }
  ended.done();
  return true;
}

int LateCopies::Count(bool to_host) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(
      std::count_if(pending_.begin(), pending_.end(),
                    [to_host](const Pending& pending) { return pending.to_host == to_host; }));
}

size_t LateCopies::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [data, size] : pinned_) bytes += size;
  return bytes;
}

absl::StatusOr<BackendBuffer> LateCopies::AllocatePinned(size_t bytes) {
  auto* const data = new uint8_t[bytes];
  std::memset(data, kPoison, bytes);
  const std::lock_guard lock(mutex_);
  pinned_.emplace(data, bytes);
  return BackendBuffer(data, bytes, [this, bytes](uint8_t* memory) {
    const std::lock_guard inner(mutex_);
    pinned_.erase({memory, bytes});
    delete[] memory;
  });
}

uint64_t LateCopies::Mark() {
  const std::lock_guard lock(mutex_);
  return ++last_mark_;
}

void LateCopies::Add(absl::Span<const DeviceCopy> copies, bool to_host, Done done) {
  const std::lock_guard lock(mutex_);
  for (const DeviceCopy& copy : copies) {
    BATON_CHECK(std::any_of(pinned_.begin(), pinned_.end(),
                            [&copy](const auto& memory) {
                              return copy.host >= memory.first &&
                                     copy.host + copy.bytes <= memory.first + memory.second;
                            }),
                "copies from and to pinned memory");
    std::memset(to_host ? copy.host : Near(copy.device), kPoison, copy.bytes);
  }
  pending_.push_back({{copies.begin(), copies.end()}, to_host, std::move(done)});
  changed_.notify_all();
}

void LateCopies::ToHost(absl::Span<const DeviceCopy> copies, uint64_t after, Done done) {
  {
    const std::lock_guard lock(mutex_);
    BATON_CHECK(after <= last_mark_, "a mark that was given");
  }
  Add(copies, true, std::move(done));
}

void LateCopies::ToDevice(absl::Span<const DeviceCopy> copies, Done done) {
  Add(copies, false, std::move(done));
}

}  // namespace baton
