// The limits of this system that servers run into.
#pragma once

#include <cstdint>
#include <string>

#include "client/doctor/finding.h"

namespace baton {

struct LimitFacts {
  uint64_t descriptors = 0;     // RLIMIT_NOFILE, to which servers raise themselves; 0: no limit
  int listen_backlog = 0;       // net.core.somaxconn; 0: unknown
  uint64_t threads = 0;         // RLIMIT_NPROC; 0: no limit
  std::string state_folder{};   // where a user's fleet secret is kept; empty: nowhere
  bool state_writable = false;  // whether files can be made there
  uint64_t state_free_bytes = 0;
};

// `root` is before /proc; empty: this machine's own.
LimitFacts GatherLimitFacts(const std::string& root = "");

// limit.descriptors, limit.listen_backlog, limit.threads and limit.state_folder. Pure.
Findings LimitFindings(const LimitFacts& facts);

}  // namespace baton
