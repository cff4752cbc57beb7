// Keeps the attempts that live on this decode worker by key: it finds the driver of a push, and
// ends lower attempts when a higher one comes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "decode_worker/attempt_fence.h"
#include "decode_worker/receive_driver.h"

namespace baton {

// Thread-safe.
class AttemptRegistry {
 public:
  // Ends the call that holds the attempt. Called without a lock, from any thread. Only its first
  // call may have an effect: it may be called more than once.
  using End = std::function<void(const absl::Status&)>;

  explicit AttemptRegistry(size_t max_attempts) : max_attempts_(max_attempts) {}

  // The attempt at the choices [key.choice, key.choice + choices) lives from here on; lower
  // attempts at any of them are ended. ABORTED if a higher attempt was seen, ALREADY_EXISTS
  // if this one was seen, RESOURCE_EXHAUSTED when max_attempts live.
  absl::Status Admit(const internal::v1::AttemptKey& key, uint32_t choices, End end);
  // Pushes for the attempt find `driver` from here on.
  void Expect(const internal::v1::AttemptKey& key, std::shared_ptr<ReceiveDriver> driver);
  // The attempt does not live any more.
  void Remove(const internal::v1::AttemptKey& key);

  // The driver for a push. Null, with *reason, when no push is expected for the key.
  std::shared_ptr<ReceiveDriver> Find(const internal::v1::AttemptKey& key,
                                      internal::v1::PushRefused::Reason* reason) const;
  void EndAll(const absl::Status& status);
  size_t size() const;

 private:
  struct Attempt {
    internal::v1::AttemptKey key;
    uint32_t choices = 1;
    End end;
    std::shared_ptr<ReceiveDriver> driver;  // null until pushes are expected
  };

  const size_t max_attempts_;
  mutable absl::Mutex mutex_;
  AttemptFence fence_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);  // attempts by the key's bytes
};

}  // namespace baton
