#include "router/web/shown_caller.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

constexpr absl::string_view kBasic = "basic ";

// "Basic BASE64(user:password)" as "Bearer password"; anything else as it is.
std::string AsBearer(const std::string& authorization) {
  absl::string_view rest = authorization;
  std::string credentials;
  if (!absl::StartsWithIgnoreCase(rest, kBasic)) return authorization;
  rest.remove_prefix(kBasic.size());
  if (!absl::Base64Unescape(rest, &credentials)) return authorization;
  const size_t colon = credentials.find(':');
  if (colon == std::string::npos) return authorization;
  return absl::StrCat("Bearer ", credentials.substr(colon + 1));
}

}  // namespace

Door::Shown ShownBy(const HttpRequest& head, const Door& door) {
  Door::Shown shown{.peer = head.client.address, .encrypted = head.client.encrypted};
  if (door.takes_keys()) {
    for (const std::string& value : head.HeaderValues("authorization")) {
      shown.authorization.push_back(AsBearer(value));
    }
    for (const std::string& key : head.HeaderValues("x-api-key")) {
      shown.authorization.push_back(absl::StrCat("Bearer ", key));
    }
  }
  if (const std::optional<Peer>& peer = head.client.certificate; peer.has_value()) {
    if (peer->role == Role::kOperator) shown.certificate_name = "";
    if (peer->role == Role::kClient) shown.certificate_name = peer->name;
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
