#include "tests/support/clock_steps.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kSlice = 2'000'000;  // how soon a wait notices that the clock was set

std::atomic<int64_t> own_distance = 0;
std::atomic<int64_t>* distance = &own_distance;

// Maps the file of CLOCK_STEPS_FILE before main begins.
[[gnu::constructor]] void MapDistance() {
  const char* const path = std::getenv("CLOCK_STEPS_FILE");
  const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const mapped = mmap(nullptr, sizeof(*distance), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) distance = static_cast<std::atomic<int64_t>*>(mapped);
}

// A function of the C library. No local statics: their guards may call syscall() themselves.
template <typename Function>
struct NextFunction {
  Function Find() {
    Function function = found.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
      found.store(function, std::memory_order_relaxed);
    }
    return function;
  }
  const char* const name;
  std::atomic<Function> found = nullptr;
};

constinit NextFunction<long (*)(long, ...)> next_syscall{.name = "syscall"};
constinit NextFunction<int (*)(clockid_t, timespec*)> next_clock_gettime{.name = "clock_gettime"};

int64_t ToNanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
timespec ToTimespec(int64_t nanoseconds) {
  return {.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
}

// What the kernel does: the wait ends when the clock, as it is set at that moment, shows `until`.
long WaitUntilWallTime(long word, int operation, long value, const timespec& until) {
  while (true) {
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t left = ToNanoseconds(until) - ToNanoseconds(now);
    const timespec slice = ToTimespec(std::clamp<int64_t>(left, 0, kSlice));
    const long result = next_syscall.Find()(
        SYS_futex, word, FUTEX_WAIT | (operation & FUTEX_PRIVATE_FLAG), value, &slice, nullptr, 0);
    if (result == 0 || errno != ETIMEDOUT || left <= 0) return result;
  }
}

}  // namespace

extern "C" {

void BatonStepWallClock(int64_t nanoseconds) { *distance += nanoseconds; }

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = next_clock_gettime.Find()(clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) {
    *time = ToTimespec(ToNanoseconds(*time) + distance->load());
  }
  return result;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec shown = {};
  clock_gettime(CLOCK_REALTIME, &shown);
  *time = {.tv_sec = shown.tv_sec, .tv_usec = shown.tv_nsec / 1000};
  return 0;
}

long syscall(long number, ...) noexcept {
  long arguments[6];
  va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const int operation = static_cast<int>(arguments[1]);
  constexpr int kUntilWallTime = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  if (number == SYS_futex && (operation & ~FUTEX_PRIVATE_FLAG) == kUntilWallTime &&
      arguments[3] != 0) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a system call's arguments are integers
    const auto* const until = reinterpret_cast<const timespec*>(arguments[3]);
    return WaitUntilWallTime(arguments[0], operation, arguments[2], *until);
  }
  return next_syscall.Find()(number, arguments[0], arguments[1], arguments[2], arguments[3],
                             arguments[4], arguments[5]);
}

}  // extern "C"
