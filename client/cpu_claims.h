// Claims of CPUs: which CPUs a process has for itself among all processes of Baton on the machine.
#pragma once

#include <utility>
#include <vector>

namespace baton {

// A claim is a name in the kernel's abstract socket namespace, bound as long as this object lives.
// Only one process can bind a name at a time, whichever user runs it and whatever files it sees,
// and the kernel frees the name when the process ends in any way. Processes in different network
// namespaces (most containers) do not see each other's claims; there --cpu-set divides the CPUs.
// Movable; not thread-safe.
class CpuClaims {
 public:
  CpuClaims() = default;
  // Goes through `cpus` in order and claims those that no other process has, until it has `most`.
  // Never waits: it takes microseconds.
  CpuClaims(const std::vector<int>& cpus, int most);
  CpuClaims(CpuClaims&& other) noexcept { *this = std::move(other); }
  CpuClaims& operator=(CpuClaims&& other) noexcept {
    sockets_.swap(other.sockets_);
    taken_.swap(other.taken_);
    return *this;
  }
  ~CpuClaims();

  // The CPUs that it found claimed by other processes, in the order of `cpus`.
  const std::vector<int>& taken() const { return taken_; }

 private:
  std::vector<int> sockets_;  // file descriptors, one for each claim
  std::vector<int> taken_;
};

}  // namespace baton
