// A full disk, for tests.
#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace baton {

// Bounds the size of files that this process writes while it lives, as a full disk does: a write
// that would exceed it writes what fits, and the next fails. Its error is EFBIG, not ENOSPC.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

}  // namespace baton
