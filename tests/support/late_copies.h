// DeviceCopies over host memory that end late and not in the order in which they began: when a test
// ends them, or on a thread of their own.
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

// Thread-safe. The bytes of a copy move when the copy ends; until then its target is poisoned. A
// copy from or to host memory that AllocatePinned did not give ends the process.
class LateCopies final : public DeviceCopies {
 public:
  // The distance of a device's address from the host's: whoever else uses the device's address
  // fails.
  static constexpr uintptr_t kFar = uintptr_t{1} << 44;

  // `distance` is added to the host's address of the bytes to make the device's address.
  LateCopies(uint64_t seed, uintptr_t distance) : distance_(distance), random_(seed) {}
  ~LateCopies() override;

  // Lets copies end by themselves from now on, each within a millisecond.
  void StartThread();
  // Ends one pending copy, drawn from the seed. Returns false if there is none.
  bool EndOne();
  // The numbers of pending copies.
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
