// Reads the facts of an HTTP request that identify its caller.
#pragma once

#include <optional>

#include "absl/status/statusor.h"

#include "common/access/peer.h"
#include "router/front/door.h"
#include "router/http/message.h"

namespace baton {

// The connection is that of a front, which passes on what clients show.
bool CameByFront(const HttpRequest& head);

// Returns the peer named by the request's certificate. Behind a front this is the client's
// certificate, which the front passes on, else the connection's.
absl::StatusOr<std::optional<Peer>> CertifiedBy(const HttpRequest& head);

// A key comes as `Authorization: Bearer KEY`, as Anthropic's clients send it (x-api-key), or, from a
// browser that has opened the router's page, as the password of `Authorization: Basic`, whatever the
// user's name. The clients of both APIs always send one, so if no keys are known it says nothing.
Door::Shown ShownBy(const HttpRequest& head, const Door& door);

// The key is a password: the browser sends it by itself, so CheckOwnPage is needed.
bool ShowsPassword(const HttpRequest& head);

}  // namespace baton
