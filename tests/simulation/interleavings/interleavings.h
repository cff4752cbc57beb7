// Every order of events of one prefill and one decode worker that hand over two requests of three
// messages each, where either worker has the blocks of one request only.
#pragma once

#include <cstdint>
#include <string>

namespace baton {

struct InterleavingOptions {
  int messages = 3;  // data messages of each request
  // Cancels, kills, and timeouts that come while something else could happen; of both requests
  // together. When nothing else can happen, time passes free of charge.
  int disturbances = 1;
};

struct InterleavingResult {
  uint64_t states = 0;
  uint64_t transitions = 0;
  uint64_t ends = 0;       // states in which all is over
  uint64_t committed = 0;  // orders in which the request was committed
  std::string violation;   // the first, with the events that lead to it; empty: none
};

InterleavingResult EnumerateInterleavings(const InterleavingOptions& options);

}  // namespace baton
