// The roles that may call each method. A method without a line may not be called.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/access/peer.h"
#include "common/access/role_set.h"

namespace baton {

// The methods of clients, which HTTP serves by other names.
inline constexpr absl::string_view kGenerateMethod = "/baton.v1.GenerationService/Generate";
inline constexpr absl::string_view kTokenizeMethod = "/baton.v1.GenerationService/Tokenize";
inline constexpr absl::string_view kDetokenizeMethod = "/baton.v1.GenerationService/Detokenize";
inline constexpr absl::string_view kListModelsMethod = "/baton.v1.GenerationService/ListModels";

struct AccessRule {
  absl::string_view method;  // "/package.Service/Method", as gRPC writes it
  RoleSet callers;
};

// The roles that a client may find where it calls.
inline constexpr RoleSet kWhoAnswersClients = {Role::kRouter, Role::kFront};

// The roles that have something to call on a worker.
inline constexpr RoleSet kWhoCallsWorkers = {Role::kRouter, Role::kPrefill, Role::kOperator};

// The roles that have something to call on a router.
inline constexpr RoleSet kWhoCallsRouters = {Role::kClient, Role::kFront, Role::kOperator};

// The roles that have something to call at a router's own port while its clients come by a front.
inline constexpr RoleSet kWhoCallsBesideAFront = {Role::kOperator};

// The rules of all methods of all servers, each method once. Thread-safe, as are the functions
// below.
absl::Span<const AccessRule> AccessTable();

// The rule of `method`; null if there is none.
const AccessRule* FindAccessRule(absl::string_view method);

// PERMISSION_DENIED if `caller` may not call `method`. It names the role, the method, and who may.
absl::Status CheckAccess(const Peer& caller, absl::string_view method);

}  // namespace baton
