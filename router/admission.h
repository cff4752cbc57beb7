// The bound on requests that wait in the router: so many, and so many bytes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace baton {

// Thread-safe. Outlives its tickets.
class Admission {
 public:
  struct Limits {
    uint32_t requests = 1024;
    uint64_t bytes = uint64_t{64} << 20;  // of the requests as received
  };

  // A place in the queue: gives itself back.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)), bytes_(other.bytes_) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(admission_, other.admission_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Ticket() { Release(); }
    void Release();

   private:
    friend class Admission;
    Ticket(Admission* admission, uint64_t bytes) : admission_(admission), bytes_(bytes) {}
    Admission* admission_ = nullptr;
    uint64_t bytes_ = 0;
  };

  explicit Admission(const Limits& limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED with RetryInfo when the queue is full. A request larger than the byte limit
  // is admitted alone.
  absl::StatusOr<Ticket> Admit(uint64_t bytes);

  uint32_t waiting_requests() const;
  uint64_t waiting_bytes() const;

 private:
  const Limits limits_;
  mutable absl::Mutex mutex_;
  uint32_t requests_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton
