#include "router/front/door.h"

#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpc/grpc_security_constants.h"

#include "common/access/peer.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/net/access_check.h"
#include "common/rpc/status.h"
#include "router/front/client_identity.h"

namespace baton {
namespace {

absl::Status Refuse(const char* reason, absl::string_view why) {
  return WithErrorInfo(absl::UnauthenticatedError(why), {.reason = reason});
}

// Returns the peer in the certificate of the connection, or of the client behind the front.
absl::StatusOr<std::optional<Peer>> Certified(const grpc::ServerContextBase& context) {
  const auto connection = context.auth_context();
  if (IsFromFront(*connection)) return ClientBehindFront(*connection, context.client_metadata());
  if (!connection->IsPeerAuthenticated()) return std::nullopt;
  return PeerOf(context);
}

// Returns the key that all values of the header show, without their blanks. Empty if they show
// none, or different ones.
absl::string_view KeyOf(const std::vector<std::string>& authorization) {
  constexpr absl::string_view kBearer = "bearer";
  absl::string_view found;
  for (const std::string& value : authorization) {
    const absl::string_view shown = absl::StripAsciiWhitespace(value);
    if (shown.empty()) continue;  // a client may send the key in another header
    const size_t blank = shown.find(' ');
    if (!absl::EqualsIgnoreCase(shown.substr(0, blank), kBearer)) return "";
    const absl::string_view key =
        blank == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(shown.substr(blank));
    if (key.empty() || (!found.empty() && found != key)) return "";
    found = key;
  }
  return found;
}

const std::string& AddressOf(const Door::Shown& shown) {
  return shown.address_behind_front.empty() ? shown.peer : shown.address_behind_front;
}

Door::Shown Look(const grpc::ServerContextBase& context) {
  Door::Shown shown;
  const auto auth = context.auth_context();
  shown.peer = context.peer();
  shown.address_behind_front = AddressBehindFront(*auth, context.client_metadata());
  const auto transport = auth->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  shown.encrypted = !transport.empty() && (transport[0] == GRPC_SSL_TRANSPORT_SECURITY_TYPE ||
                                           transport[0] == GRPC_TLS_TRANSPORT_SECURITY_TYPE);
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  for (auto entry = begin; entry != end; ++entry) {
    shown.authorization.emplace_back(entry->second.data(), entry->second.size());
  }
  const auto has_header = [&context](absl::string_view name) {
    return context.client_metadata().count(grpc::string_ref(name.data(), name.size())) > 0;
  };
  shown.proxied = IsFromFront(*auth) || CameThroughProxy(has_header);
  const absl::StatusOr<std::optional<Peer>> peer = Certified(context);
  shown.unreadable = peer.status();
  if (peer.ok() && peer->has_value()) shown.certificate_name = Door::CertificateName(**peer);
  return shown;
}

}  // namespace

std::optional<std::string> Door::CertificateName(const Peer& peer) {
  if (peer.role == Role::kOperator) return "";
  if (peer.role != Role::kClient) return std::nullopt;
  return peer.name;
}

absl::StatusOr<Caller> Door::Identify(const grpc::ServerContextBase& context,
                                      absl::string_view method) {
  return Identify(Look(context), method);
}

absl::StatusOr<Caller> Door::Identify(const Shown& shown, absl::string_view method) {
  Caller caller;
  if (absl::Status status = FindTenant(shown, caller.tenant); !status.ok()) {
    Refused(shown, method, caller.tenant, status);
    return status;
  }
  caller.identified = !shown.authorization.empty() || shown.certificate_name.has_value();
  // A caller without a tenant shares its queue with no other and may use any priority.
  if (caller.tenant.empty()) caller.limits.min_priority = std::numeric_limits<int32_t>::min();
  if (keys_ == nullptr) return caller;
  if (const std::optional<Tenant> declared = keys_->FindTenant(caller.tenant)) {
    caller.declared = true;
    caller.limits = *declared;
  }
  return caller;
}

absl::Status Door::FindTenant(const Shown& shown, std::string& tenant) const {
  if (!shown.unreadable.ok()) return Refuse("CERTIFICATE_UNREADABLE", shown.unreadable.message());
  if (!shown.authorization.empty()) return FindHolderOfKey(shown, tenant);
  tenant = shown.certificate_name.value_or("");
  if (shown.certificate_name.has_value() || ServesUnknown(shown)) return absl::OkStatus();
  if (!options_.needs_identity) {
    return Refuse(
        "NO_IDENTITY",
        "the call came through a reverse proxy (Forwarded, X-Forwarded-For or Via), so it "
        "counts as another machine's, which needs an API key: give the router --serve-key-file or "
        "--api-keys and show a key, or give it --insecure to serve everybody");
  }
  return Refuse("NO_IDENTITY",
                "this router serves known clients only: show an API key, as `baton` does with "
                "BATON_API_KEY or --api-key-file, or a client's certificate");
}

absl::Status Door::FindHolderOfKey(const Shown& shown, std::string& tenant) const {
  const absl::string_view key = KeyOf(shown.authorization);
  if (key.empty()) {
    return Refuse("API_KEY_MALFORMED",
                  "authorization must be 'Bearer KEY', and if a call shows several keys, also as "
                  "X-Api-Key, they must be equal; show one key");
  }
  const bool is_protected = shown.encrypted || IsLoopback(shown.peer);
  if (!is_protected && !options_.insecure) {
    return Refuse("API_KEY_UNPROTECTED",
                  "the API key came in plain text from another machine, so others may know it: "
                  "have it revoked, and connect with TLS, or give the router --insecure on a "
                  "network that you trust");
  }
  if (keys_ == nullptr) {
    return Refuse(
        "API_KEY_UNKNOWN",
        "this router has no API keys; send none, or give it --serve-key-file or --api-keys");
  }
  BATON_ASSIGN_OR_RETURN(ApiKeys::Holder holder, keys_->Find(key));
  tenant = std::move(holder.tenant);
  if (holder.revoked) {
    return Refuse("API_KEY_REVOKED", absl::StrCat("the API key ", holder.key_id,
                                                  " was revoked; ask the operator for another"));
  }
  const std::optional<Tenant> declared = keys_->FindTenant(tenant);
  if (is_protected || !declared.has_value() || !declared->operates) return absl::OkStatus();
  return Refuse("API_KEY_UNPROTECTED",
                absl::StrCat("the operator's API key ", holder.key_id,
                             " came in plain text from another machine, so others may know it: "
                             "have it revoked, and connect with TLS or from the router's machine"));
}

void Door::RefusedRole(const Peer& peer, const Shown& shown, absl::string_view method,
                       const absl::Status& status) {
  const absl::StatusOr<std::string> id = PeerId(peer);
  audit_log_.Refused({.method = method,
                      .peer = id.ok() ? *id : peer.name,
                      .address = AddressOf(shown),
                      .reason = status.message()},
                     SteadyNow());
}

void Door::Refused(const Shown& shown, absl::string_view method, const std::string& tenant,
                   const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  metrics_
      .AddCounter("baton_router_unauthenticated_total",
                  "Calls whose caller did not show who it is.",
                  {{"reason", reason}, {"tenant", tenant}})
      .Add();
  audit_log_.Refused(
      {.method = method, .peer = tenant, .address = AddressOf(shown), .reason = reason},
      SteadyNow());
}

}  // namespace baton
