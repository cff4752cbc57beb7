#include "client/serve/cpu_claims.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {

CpuClaims::CpuClaims(const std::vector<int>& cpus, int most) {
  for (const int cpu : cpus) {
    if (static_cast<int>(claims_.size()) == most) break;
    if (std::optional<NameClaim> claim = NameClaim::Take(absl::StrCat("cpu-", cpu))) {
      claims_.push_back(*std::move(claim));
    } else {
      taken_.push_back(cpu);
    }
  }
}

}  // namespace baton
