#include "router/web/shown_caller.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "router/front/client_identity.h"

namespace baton {
namespace {

constexpr absl::string_view kBasic = "basic ";

// "Basic BASE64(user:password)" as "Bearer password"; anything else as it is.
std::string AsBearer(const std::string& authorization) {
  absl::string_view rest = authorization;
  std::string credentials;
  if (!absl::StartsWithIgnoreCase(rest, kBasic)) return authorization;
  rest.remove_prefix(kBasic.size());
  rest = absl::StripAsciiWhitespace(rest);
  if (!absl::Base64Unescape(rest, &credentials)) return authorization;
  const size_t colon = credentials.find(':');
  if (colon == std::string::npos) return authorization;
  return absl::StrCat("Bearer ", credentials.substr(colon + 1));
}

}  // namespace

bool CameByFront(const HttpRequest& head) {
  const std::optional<Peer>& peer = head.client.certificate;
  return peer.has_value() && peer->role == Role::kFront;
}

absl::StatusOr<std::optional<Peer>> CertifiedBy(const HttpRequest& head) {
  if (!CameByFront(head)) return head.client.certificate;
  return ClientInHeaders(head.HeaderValues(kClientCertificateHeader));
}

Door::Shown ShownBy(const HttpRequest& head, const Door& door) {
  Door::Shown shown{.peer = head.client.address, .encrypted = head.client.encrypted};
  shown.proxied = CameByFront(head) || CameThroughProxy([&head](absl::string_view name) {
                    return !head.HeaderValues(name).empty();
                  });
  if (door.takes_keys()) {
    for (const std::string& value : head.HeaderValues("authorization")) {
      shown.authorization.push_back(AsBearer(value));
    }
    for (const std::string& key : head.HeaderValues("x-api-key")) {
      shown.authorization.push_back(key.empty() ? "" : absl::StrCat("Bearer ", key));
    }
  }
  if (CameByFront(head)) {
    shown.address_behind_front = std::string(head.Header(kClientAddressHeader));
  }
  const absl::StatusOr<std::optional<Peer>> certified = CertifiedBy(head);
  shown.unreadable = certified.status();
  if (certified.ok() && certified->has_value()) {
    shown.certificate_name = Door::CertificateName(**certified);
  }
  return shown;
}

bool ShowsPassword(const HttpRequest& head) {
  const std::vector<std::string> values = head.HeaderValues("authorization");
  return std::any_of(values.begin(), values.end(), [](const std::string& value) {
    return absl::StartsWithIgnoreCase(value, kBasic);
  });
}

}  // namespace baton
