// A set of roles. Pure value; thread-safe.
#pragma once

#include <initializer_list>
#include <string>

#include "common/access/peer.h"

namespace baton {

class RoleSet {
 public:
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) bits_ |= BitOf(role);
  }
  constexpr bool Has(Role role) const { return (bits_ & BitOf(role)) != 0; }
  // Such as "client or front".
  std::string Names() const;

 private:
  static constexpr unsigned BitOf(Role role) { return 1u << static_cast<unsigned>(role); }

  unsigned bits_ = 0;
};

}  // namespace baton
