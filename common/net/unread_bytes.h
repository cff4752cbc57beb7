// The memory of answers that clients have not read yet, by tenant.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton {

// Bounds the unread bytes of all long answers together, and each tenant's part of them: a tenant
// may have at most as many unread bytes as stay free. So one tenant takes at most half of the
// limit, a second one at most a quarter, and another one always finds room. The anonymous tenant
// ("") may take all, since it is the only one.
//
// An answer that is alone is never refused, however long it is, but counts as half of the limit at
// most, so that others have room beside it. Thread-safe. Outlives what its
// parts have taken.
class UnreadBytes {
 public:
  // The unread bytes of one answer at a time. Gives itself back. Used by one thread at a time.
  class Part {
   public:
    explicit Part(UnreadBytes& all) : all_(all) {}
    ~Part() { GiveBack(); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    // Sets the tenant whose bytes the following ones are. REQUIRES: no bytes are taken.
    void SetTenant(const std::string& tenant);
    // Takes `bytes` more bytes. Returns false, and takes nothing, if these would be too many.
    bool Take(size_t bytes);
    // The client has read all, or is gone.
    void GiveBack();

   private:
    UnreadBytes& all_;
    std::string tenant_;
    size_t bytes_ = 0;
  };

  explicit UnreadBytes(size_t limit) : limit_(limit) {}
  size_t bytes() const;

 private:
  // Returns how many bytes are counted of `bytes` more ones; 0: they are too many.
  size_t Take(const std::string& tenant, size_t bytes);
  void GiveBack(const std::string& tenant, size_t bytes);

  const size_t limit_;
  mutable absl::Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // By the name of the tenant. Tenants without unread bytes are left out.
  std::map<std::string, size_t> bytes_of_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
