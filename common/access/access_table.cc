#include "common/access/access_table.h"

#include "absl/strings/str_cat.h"

#include "common/base/log.h"

namespace baton {
namespace {

// A front passes on the calls of clients. An operator looks, and generates nothing.
constexpr RoleSet kWhoGenerate = {Role::kClient, Role::kFront};
constexpr RoleSet kWhoProbe = {Role::kClient, Role::kRouter, Role::kFront, Role::kOperator};

constexpr AccessRule kTable[] = {
    {kGenerateMethod, kWhoGenerate},
    {kTokenizeMethod, kWhoGenerate},
    {kDetokenizeMethod, kWhoGenerate},
    {kListModelsMethod, {Role::kClient, Role::kFront, Role::kOperator}},
    {"/baton.internal.v1.WorkerService/Watch", {Role::kRouter}},
    {"/baton.internal.v1.PrefillService/Prefill", {Role::kRouter}},
    {"/baton.internal.v1.DecodeService/Decode", {Role::kRouter}},
    {"/baton.internal.v1.KvTransferService/Push", {Role::kPrefill}},
    {"/grpc.health.v1.Health/Check", kWhoProbe},
    {"/grpc.health.v1.Health/Watch", kWhoProbe},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", {Role::kOperator}},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {Role::kOperator}},
};

}  // namespace

absl::Span<const AccessRule> AccessTable() { return kTable; }

const AccessRule* FindAccessRule(absl::string_view method) {
  for (const AccessRule& rule : kTable) {
    if (rule.method == method) return &rule;
  }
  return nullptr;
}

absl::Status CheckAccess(const Peer& caller, absl::string_view method) {
  const AccessRule* rule = FindAccessRule(method);
  if (rule == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat("no role may call ", LogSafe(method),
                                                    ": Baton has no such method; check the name"));
  }
  if (rule->callers.Has(caller.role)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the role ", RoleName(caller.role), " may not call ", method, ", only ",
                   rule->callers.Names(),
                   " may; use a certificate of one of those roles, with the SPIFFE ID "
                   "spiffe://<trust domain>/baton/<role>/<name>"));
}

}  // namespace baton
