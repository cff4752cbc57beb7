// Claims of CPUs: which CPUs a process has for itself among the processes of Baton that its user
// runs on the machine.
#pragma once

#include <vector>

#include "client/serve/name_claim.h"

namespace baton {

// Each claim is a name (client/serve/name_claim.h). Between processes that do not see each other's
// names, such as those of two users, --cpu-set divides the CPUs. Movable; not thread-safe.
class CpuClaims {
 public:
  CpuClaims() = default;
  // Goes through `cpus` in order and claims those that no other process has, until it has `most`.
  CpuClaims(const std::vector<int>& cpus, int most);

  // The CPUs that it found claimed by other processes, in the order of `cpus`.
  const std::vector<int>& taken() const { return taken_; }

 private:
  std::vector<NameClaim> claims_;  // one for each CPU
  std::vector<int> taken_;
};

}  // namespace baton
