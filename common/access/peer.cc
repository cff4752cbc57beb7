#include "common/access/peer.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr absl::string_view kScheme = "spiffe://";

absl::Status BadPart(absl::string_view part, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat("the ", part, " '", LogSafe(value), "' ", remedy));
}

bool IsTrustDomainByte(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
}

bool IsPathByte(char c) {
  return IsTrustDomainByte(absl::ascii_tolower(static_cast<unsigned char>(c)));
}

template <typename Allowed>
bool HasOnly(absl::string_view text, Allowed allowed) {
  for (const char c : text) {
    if (!allowed(c)) return false;
  }
  return true;
}

absl::Status CheckTrustDomain(absl::string_view domain) {
  if (domain.empty()) return BadPart("trust domain", domain, "is empty; give one");
  if (domain.size() > kMaxTrustDomainBytes) {
    return BadPart("trust domain", domain,
                   absl::StrCat("has more than ", kMaxTrustDomainBytes, " bytes; shorten it"));
  }
  if (!HasOnly(domain, IsTrustDomainByte)) {
    return BadPart("trust domain", domain, "may have only a-z, 0-9, '.', '-' and '_'");
  }
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view name) {
  for (const absl::string_view segment : absl::StrSplit(name, '/')) {
    if (segment.empty()) return BadPart("name", name, "is empty or has an empty part");
    if (segment == "." || segment == "..") {
      return BadPart("name", name, "must not have '.' or '..' as a part");
    }
    if (!HasOnly(segment, IsPathByte)) {
      return BadPart("name", name, "may have only a-z, A-Z, 0-9, '.', '-', '_' and '/'");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Peer> ReadPeer(absl::string_view id) {
  if (id.size() > kMaxPeerIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has more than ", kMaxPeerIdBytes, " bytes; shorten the name"));
  }
  absl::string_view rest = id;
  if (!absl::ConsumePrefix(&rest, kScheme)) {
    return absl::InvalidArgumentError(absl::StrCat("it does not begin with ", kScheme));
  }
  // The name, which is last, keeps its slashes.
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, absl::MaxSplits('/', 3));
  BATON_RETURN_IF_ERROR(CheckTrustDomain(parts[0]));
  if (parts.size() < 2 || parts[1] != "baton") {
    return absl::InvalidArgumentError("the path of the SPIFFE ID does not begin with /baton/");
  }
  if (parts.size() < 3) return absl::InvalidArgumentError("the role is missing");
  BATON_ASSIGN_OR_RETURN(const Role role, RoleFromName(parts[2]));
  if (parts.size() < 4) return absl::InvalidArgumentError("the name is missing");
  BATON_RETURN_IF_ERROR(CheckName(parts[3]));
  return Peer{.role = role, .trust_domain = std::string(parts[0]), .name = std::string(parts[3])};
}

}  // namespace

const char* RoleName(Role role) {
  switch (role) {
    case Role::kClient:
      return "client";
    case Role::kRouter:
      return "router";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
    case Role::kFront:
      return "front";
    case Role::kOperator:
      return "operator";
  }
  return "unknown";
}

absl::StatusOr<Role> RoleFromName(absl::string_view name) {
  for (const Role role : kAllRoles) {
    if (name == RoleName(role)) return role;
  }
  std::string names;
  for (const Role role : kAllRoles) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", RoleName(role));
  }
  return BadPart("role", name, absl::StrCat("is not one of ", names));
}

absl::StatusOr<Peer> ParsePeer(absl::string_view id) {
  absl::StatusOr<Peer> peer = ReadPeer(id);
  if (peer.ok()) return peer;
  return absl::InvalidArgumentError(
      absl::StrCat("'", LogSafe(id), "' is not a SPIFFE id of Baton: ", peer.status().message(),
                   "; write spiffe://<trust domain>/baton/<role>/<name>"));
}

absl::StatusOr<std::string> PeerId(const Peer& peer) {
  // The domain is checked here too, since one that has a slash would be read as another domain.
  BATON_RETURN_IF_ERROR(CheckTrustDomain(peer.trust_domain));
  std::string id =
      absl::StrCat(kScheme, peer.trust_domain, "/baton/", RoleName(peer.role), "/", peer.name);
  BATON_RETURN_IF_ERROR(ParsePeer(id).status());
  return id;
}

}  // namespace baton
