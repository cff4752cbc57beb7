#include "common/access/role_set.h"

#include "absl/strings/str_cat.h"

namespace baton {

std::string RoleSet::Names() const {
  std::string names;
  for (const Role role : kAllRoles) {
    if (Has(role)) absl::StrAppend(&names, names.empty() ? "" : " or ", RoleName(role));
  }
  return names;
}

}  // namespace baton
