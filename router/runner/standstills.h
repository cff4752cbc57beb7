// Finds a request that makes the engines of its workers stand still.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baton {

// Compares the requests that workers computed when their engines stopped advancing. If two
// different workers have exactly one of these requests in common, that request is named. If they
// have several in common, none is: any of them may be the cause, and the others ran beside it.
//
// Not thread-safe. Holds at most the living requests for each worker that has stood still.
class Standstills {
 public:
  struct Worker {
    std::string address;  // the same for all ids that the worker has had
    std::string name;     // for errors
  };
  struct Named {
    uint64_t request = 0;
    std::string other_worker;  // name of the other worker that stood still while it computed it
  };

  // Records that `worker` stood still while it computed `requests`. Returns the only request that
  // this worker and one that stood still before have in common; none if there is no such request,
  // or if the workers before differ about it. REQUIRES: `requests` have not ended.
  std::optional<Named> StoodStill(const Worker& worker, const std::vector<uint64_t>& requests);
  // Forgets the request, which has ended.
  void Ended(uint64_t request);

 private:
  // [address][request]: the worker's name when it stood still. No inner map is empty.
  std::map<std::string, std::map<uint64_t, std::string>> standstills_;
};

}  // namespace baton
