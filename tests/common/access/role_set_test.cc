#include "common/access/role_set.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RoleSet, HasTheRolesThatItWasMadeOfAndNoOthers) {
  constexpr RoleSet kRoles = {Role::kDecode, Role::kClient};
  for (const Role role : kAllRoles) {
    EXPECT_EQ(kRoles.Has(role), role == Role::kDecode || role == Role::kClient) << RoleName(role);
  }
}

TEST(RoleSet, NamesItsRolesInTheOrderOfAllRoles) {
  EXPECT_EQ((RoleSet{Role::kFront, Role::kClient}).Names(), "client or front");
  EXPECT_EQ((RoleSet{Role::kOperator, Role::kRouter, Role::kPrefill}).Names(),
            "router or prefill or operator");
  EXPECT_EQ(RoleSet{Role::kRouter}.Names(), "router");
}

}  // namespace
}  // namespace baton
