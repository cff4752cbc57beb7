// Makes the timed waits inside libraries follow the monotonic clock.
//
// Abseil of Debian 12 waits for a futex until a time of the wall clock, and gRPC's timers wait by
// Abseil. If the wall clock is set back by an hour, their waits last an hour longer: gRPC then
// sends no ping, ends no call at its deadline, connects to no restarted worker and reads no renewed
// certificate. Abseil calls syscall() for that wait. The definition of syscall() in the program
// takes the place of the C library's in all shared libraries, because the dynamic linker finds it
// first (CMakeLists.txt links it in). It changes this one kind of wait, and passes on all others.
//
// Thread-safe, as the C library's function.
#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>

namespace baton {
namespace {

using Syscall = long (*)(long number, ...);

// The C library's function. No local static: its guard may call syscall() itself.
constinit std::atomic<Syscall> library_syscall = nullptr;

Syscall LibrarySyscall() {
  Syscall found = library_syscall.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = reinterpret_cast<Syscall>(dlsym(RTLD_NEXT, "syscall"));
    library_syscall.store(found, std::memory_order_relaxed);
  }
  return found;
}

// The time of the monotonic clock at which the wall clock will show `wall` if the clock is not set.
timespec MonotonicTimeOf(const timespec& wall) {
  constexpr int64_t kSecond = 1'000'000'000;  // nanoseconds
  timespec wall_now = {}, now = {};
  clock_gettime(CLOCK_REALTIME, &wall_now);
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t seconds = wall.tv_sec - wall_now.tv_sec + now.tv_sec;
  int64_t nanoseconds = wall.tv_nsec - wall_now.tv_nsec + now.tv_nsec;
  if (nanoseconds < 0) {
    nanoseconds += kSecond;
    --seconds;
  } else if (nanoseconds >= kSecond) {
    nanoseconds -= kSecond;
    ++seconds;
  }
  if (seconds < 0) return {};  // before the machine started: the wait ends at once
  return {.tv_sec = seconds, .tv_nsec = nanoseconds};
}

}  // namespace
}  // namespace baton

// NOLINTNEXTLINE: the C library's name
extern "C" long syscall(long number, ...) noexcept {
  long arguments[6];
  va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  constexpr int kUntilWallTime = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  const int operation = static_cast<int>(arguments[1]);
  timespec until = {};
  if (number == SYS_futex && (operation & ~FUTEX_PRIVATE_FLAG) == kUntilWallTime &&
      arguments[3] != 0) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a system call's arguments are integers
    const auto* const wall = reinterpret_cast<const timespec*>(arguments[3]);
    until = baton::MonotonicTimeOf(*wall);
    arguments[1] = operation & ~FUTEX_CLOCK_REALTIME;
    arguments[3] = reinterpret_cast<long>(&until);
  }
  return baton::LibrarySyscall()(number, arguments[0], arguments[1], arguments[2], arguments[3],
                                 arguments[4], arguments[5]);
}
