// Who a process is to the others, as its certificate says: a role and a name, in the SPIFFE id
// spiffe://<trust domain>/baton/<role>/<name>. Pure functions; thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// What a peer may do (common/access/access_table.h) follows from its role alone.
enum class Role {
  kClient,    // asks the router to generate
  kRouter,    // gives requests to workers
  kPrefill,   // pushes KV to decode workers
  kDecode,    // receives KV
  kFront,     // a proxy before the router, which passes on who its clients are
  kOperator,  // a person or program that looks after the servers
};
inline constexpr Role kAllRoles[] = {Role::kClient, Role::kRouter, Role::kPrefill,
                                     Role::kDecode, Role::kFront,  Role::kOperator};

// Such as "prefill".
const char* RoleName(Role role);
// The role with that name. INVALID_ARGUMENT lists the names there are.
absl::StatusOr<Role> RoleFromName(absl::string_view name);

struct Peer {
  Role role = Role::kClient;
  // Such as "example.org"; empty for a client whose certificate has no id, or who has none.
  std::string trust_domain{};
  // What the role's peers differ in; may have several parts, as in "a/b". Empty for a client
  // without a certificate.
  std::string name{};

  friend bool operator==(const Peer&, const Peer&) = default;
};

// The longest id, in bytes, and the longest trust domain; both are bounds of SPIFFE.
inline constexpr size_t kMaxPeerIdBytes = 2048;
inline constexpr size_t kMaxTrustDomainBytes = 255;

// Reads a SPIFFE id. INVALID_ARGUMENT names the part that is wrong, and how it must be.
absl::StatusOr<Peer> ParsePeer(absl::string_view id);

// The SPIFFE id of `peer`, which ParsePeer reads. INVALID_ARGUMENT as ParsePeer's.
absl::StatusOr<std::string> PeerId(const Peer& peer);

}  // namespace baton
