// DeviceCopies over host memory that end late and in another order than they began: when a test
// says so, or on a thread of their own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "common/backend/device_copies.h"

namespace baton {

// Thread-safe. A copy's bytes move when it ends, not before; what it is copied to is poisoned until
// then. Copies from or to pinned memory that was not given out end the process.
class LateCopies final : public DeviceCopies {
 public:
  // What is added to an address to make it the device's: anybody else who follows it fails.
  static constexpr uintptr_t kFar = uintptr_t{1} << 44;

  // `distance`: of the device's addresses from those where the bytes are.
  LateCopies(uint64_t seed, uintptr_t distance) : distance_(distance), random_(seed) {}
  ~LateCopies() override;

  // Copies end by themselves from here on, each within a millisecond.
  void StartThread();
  // Ends one of those on their way, drawn by the seed; false where there is none.
  bool EndOne();
  int to_host() const { return Count(true); }
  int to_device() const { return Count(false); }
  size_t pinned_bytes() const;

  absl::StatusOr<BackendBuffer> AllocatePinned(size_t bytes) override;
  uint64_t Mark() override;
  void ToHost(absl::Span<const DeviceCopy> copies, uint64_t after, Done done) override;
  void ToDevice(absl::Span<const DeviceCopy> copies, Done done) override;

 private:
  struct Pending {
    std::vector<DeviceCopy> copies;
    bool to_host = false;
    Done done;
  };
  int Count(bool to_host) const;
  void Add(absl::Span<const DeviceCopy> copies, bool to_host, Done done);
  uint8_t* Near(uint8_t* device) const { return device - distance_; }
  void Run();

  const uintptr_t distance_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::mt19937_64 random_;
  uint64_t last_mark_ = 0;
  std::vector<Pending> pending_;
  std::set<std::pair<uint8_t*, size_t>> pinned_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace baton
