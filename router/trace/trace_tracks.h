// Which row of a drawing shows a span: those of one row do not overlap unless one contains the other.
#pragma once

#include <cstdint>
#include <vector>

#include "router/trace/request_trace.h"

namespace baton {

// The rows that the requests so far were given. They are given in the order in which requests end,
// and reused, so that there are about as many as requests, and transfers, at one time. Not
// thread-safe.
class TraceTracks {
 public:
  static constexpr size_t kBound = 4096;

  // The row of each span; the request's own is the first that is free for as long as it took. Empty:
  // there would be more rows than kBound.
  std::vector<int> Give(const RequestTrace& trace);
  // How many there are: rows are 0, 1, 2 ...
  size_t size() const { return free_from_ns_.size(); }

 private:
  int FirstFree(int64_t begin_ns, const std::vector<int>& taken);

  std::vector<int64_t> free_from_ns_;  // by row: when its last span ended
};

}  // namespace baton
