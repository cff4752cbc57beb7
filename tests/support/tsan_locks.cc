// Tells ThreadSanitizer which orders Abseil's locks make. Debian's Abseil is not instrumented, so
// without this every use of an absl::Mutex would be reported as a race. The linker's --wrap sends
// the calls of instrumented code here (CMakeLists.txt).
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {

void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name

#define LOCK _ZN4absl7debian35Mutex4LockEv
#define UNLOCK _ZN4absl7debian35Mutex6UnlockEv
#define AWAIT _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE
#define AWAIT_WITH_TIMEOUT _ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE
#define CONDVAR_WAIT _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE
#define CONDVAR_WAIT_WITH_TIMEOUT \
  _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE
#define NOTIFY _ZN4absl7debian312Notification6NotifyEv
#define WAIT_FOR_NOTIFICATION _ZNK4absl7debian312Notification19WaitForNotificationEv

#define CALL(macro, name) macro(name)

void CALL(REAL, LOCK)(absl::Mutex* mutex);
void CALL(REAL, UNLOCK)(absl::Mutex* mutex);
void CALL(REAL, AWAIT)(absl::Mutex* mutex, const absl::Condition& condition);
bool CALL(REAL, AWAIT_WITH_TIMEOUT)(absl::Mutex* mutex, const absl::Condition& condition,
                                    absl::Duration timeout);
void CALL(REAL, CONDVAR_WAIT)(absl::CondVar* changed, absl::Mutex* mutex);
bool CALL(REAL, CONDVAR_WAIT_WITH_TIMEOUT)(absl::CondVar* changed, absl::Mutex* mutex,
                                           absl::Duration timeout);
void CALL(REAL, NOTIFY)(absl::Notification* notification);
void CALL(REAL, WAIT_FOR_NOTIFICATION)(const absl::Notification* notification);

// The release of a mutex. The releasing thread evaluates the conditions of waiting threads while it
// still holds the mutex, but after the release was told here.
struct GivesUp {
  explicit GivesUp(absl::Mutex* mutex) {
    __tsan_release(mutex);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  }
  ~GivesUp() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};
struct Waits {
  explicit Waits(absl::Mutex* m) : mutex(m), gives_up(m) {}
  ~Waits() { __tsan_acquire(mutex); }
  absl::Mutex* const mutex;
  const GivesUp gives_up;
};

void CALL(WRAP, LOCK)(absl::Mutex* mutex) {
  CALL(REAL, LOCK)(mutex);
  __tsan_acquire(mutex);
}
void CALL(WRAP, UNLOCK)(absl::Mutex* mutex) {
  const GivesUp gives_up(mutex);
  CALL(REAL, UNLOCK)(mutex);
}
void CALL(WRAP, AWAIT)(absl::Mutex* mutex, const absl::Condition& condition) {
  const Waits waits(mutex);
  CALL(REAL, AWAIT)(mutex, condition);
}
bool CALL(WRAP, AWAIT_WITH_TIMEOUT)(absl::Mutex* mutex, const absl::Condition& condition,
                                    absl::Duration timeout) {
  const Waits waits(mutex);
  return CALL(REAL, AWAIT_WITH_TIMEOUT)(mutex, condition, timeout);
}
void CALL(WRAP, CONDVAR_WAIT)(absl::CondVar* changed, absl::Mutex* mutex) {
  const Waits waits(mutex);
  CALL(REAL, CONDVAR_WAIT)(changed, mutex);
}
bool CALL(WRAP, CONDVAR_WAIT_WITH_TIMEOUT)(absl::CondVar* changed, absl::Mutex* mutex,
                                           absl::Duration timeout) {
  const Waits waits(mutex);
  return CALL(REAL, CONDVAR_WAIT_WITH_TIMEOUT)(changed, mutex, timeout);
}
void CALL(WRAP, NOTIFY)(absl::Notification* notification) {
  __tsan_release(notification);
  CALL(REAL, NOTIFY)(notification);
}
void CALL(WRAP, WAIT_FOR_NOTIFICATION)(const absl::Notification* notification) {
  CALL(REAL, WAIT_FOR_NOTIFICATION)(notification);
  __tsan_acquire(const_cast<absl::Notification*>(notification));
}

}  // extern "C"
