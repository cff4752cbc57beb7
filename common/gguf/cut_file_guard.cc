#include "common/gguf/cut_file_guard.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <mutex>

#include "common/base/terminal_text.h"

namespace baton {
namespace {

// A handler of signals can be given nothing, so what it needs is global. It reads `begin` and
// `size` without a lock; the line is written before them.
struct Place {
  std::atomic<uintptr_t> begin = 0;  // 0: free
  std::atomic<size_t> size = 0;
  char line[PATH_MAX + 256];
  int line_bytes = 0;
};

Place places[CutFileGuard::kMax];
std::mutex places_mutex;
struct sigaction action_before;

std::atomic_flag ends;

// These two call only what a handler may call.
[[noreturn]] void EndWith(const Place& place) {
  // The threads that load a file meet its end together: one says so, and ends them all.
  while (ends.test_and_set()) pause();
  // What could be done about a line that cannot be written?
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, place.line, static_cast<size_t>(place.line_bytes));
  _exit(kExitCutFile);
}

void OnBusError(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Place& place : places) {
    const uintptr_t begin = place.begin.load();
    if (info->si_code != BUS_ADRERR || begin == 0) continue;
    if (address >= begin && address - begin < place.size.load()) EndWith(place);
  }
  // A fault happens again where it did, with the action of before; a signal that was sent is sent
  // again.
  sigaction(SIGBUS, &action_before, nullptr);
  if (info->si_code <= 0) raise(signal);
}

void InstallHandler() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &action_before);
}

}  // namespace

CutFileGuard::CutFileGuard(absl::Span<const uint8_t> bytes, const std::string& path) {
  const std::lock_guard lock(places_mutex);
  static const bool installed = (InstallHandler(), true);
  for (int i = 0; installed && i < kMax; ++i) {
    Place& place = places[i];
    if (place.begin.load() != 0) continue;
    place.line_bytes = std::snprintf(
        place.line, sizeof(place.line),
        "%.*s: was cut short or written to while it was read; start again with a whole file, and "
        "replace model files by rename\n",
        PATH_MAX, ShownLine(path).c_str());
    place.size.store(bytes.size());
    place.begin.store(reinterpret_cast<uintptr_t>(bytes.data()));
    place_ = i;
    return;
  }
}

CutFileGuard::~CutFileGuard() {
  if (place_ < 0) return;
  const std::lock_guard lock(places_mutex);
  places[place_].begin.store(0);
}

void CutFileGuard::EndProcess() const {
  if (place_ >= 0) EndWith(places[place_]);
}

}  // namespace baton
