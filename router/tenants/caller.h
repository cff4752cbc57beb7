// The sender of a request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "router/tenants/keys_file.h"

namespace baton {

struct Caller {
  // The nearest priority that the caller may ask for.
  int32_t Clamp(int32_t priority) const {
    return std::clamp(priority, limits.min_priority, limits.max_priority);
  }

  // The tenant that the caller has shown to be. Empty: the one anonymous tenant of a router
  // that requires no identity.
  std::string tenant;
  bool identified = false;  // the caller has shown a valid key or certificate
  // Whether the keys file has the tenant, and what it says; without it nothing is limited.
  bool declared = false;
  Tenant limits{};
};

}  // namespace baton
