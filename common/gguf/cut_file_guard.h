// Turns the SIGBUS of a mapped file that was cut short into a line on stderr and an exit code.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/types/span.h"

namespace baton {

inline constexpr int kExitCutFile = 74;  // EX_IOERR of sysexits.h

// While one lives, a read of its bytes that the file does not hold any more ends the process with
// kExitCutFile. Any other SIGBUS does what it did before. At most kMax live at a time; those beyond
// guard nothing. The first one installs the handler of SIGBUS for good. Thread-safe.
class CutFileGuard {
 public:
  static constexpr int kMax = 1024;

  // `bytes`: the mapping. `path` is for the line.
  CutFileGuard(absl::Span<const uint8_t> bytes, const std::string& path);
  ~CutFileGuard();
  CutFileGuard(CutFileGuard&& other) noexcept : place_(std::exchange(other.place_, -1)) {}
  CutFileGuard& operator=(CutFileGuard&& other) noexcept {
    std::swap(place_, other.place_);
    return *this;
  }

  // Ends the process as such a read does; one beyond kMax does nothing.
  void EndProcess() const;

 private:
  int place_ = -1;  // in the handler's table; -1: none
};

}  // namespace baton
