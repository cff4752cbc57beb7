// CPUs that a process has for itself among all processes of Baton on the machine.
#pragma once

#include <utility>
#include <vector>

namespace baton {

// A claim is a name in the kernel's abstract socket namespace, bound as long as this object lives.
// One process has a name at a time, whoever runs it and whatever files it sees, and the kernel
// gives it back when the process ends, however it ends. A process in another network namespace
// (most containers) has names of its own: the two do not see each other, and --cpu-set divides.
// Movable; not thread-safe.
class CpuClaims {
 public:
  CpuClaims() = default;
  // Goes through `cpus` in order and claims those that nobody has, until it has `most`. Takes
  // microseconds: waits for nobody.
  CpuClaims(const std::vector<int>& cpus, int most);
  CpuClaims(CpuClaims&& other) noexcept { *this = std::move(other); }
  CpuClaims& operator=(CpuClaims&& other) noexcept {
    sockets_.swap(other.sockets_);
    taken_.swap(other.taken_);
    return *this;
  }
  ~CpuClaims();

  // Those that it met in the hands of others, in order.
  const std::vector<int>& taken() const { return taken_; }

 private:
  std::vector<int> sockets_;
  std::vector<int> taken_;
};

}  // namespace baton
