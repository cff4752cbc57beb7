// Who sent a request.
#pragma once

#include <string>

#include "router/tenants/keys_file.h"

namespace baton {

struct Caller {
  // The tenant that the caller has shown to be. Empty: the one anonymous tenant, of whoever calls a
  // router that asks for no identity.
  std::string tenant;
  // Whether the keys file has the tenant, and what it says; without it nothing is limited.
  bool declared = false;
  Tenant limits{};
};

}  // namespace baton
