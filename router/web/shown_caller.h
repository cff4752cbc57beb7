// What a request shows of its caller.
#pragma once

#include "router/front/door.h"
#include "router/http/message.h"

namespace baton {

// A key comes as `Authorization: Bearer KEY`, as Anthropic's clients send it (x-api-key), or, from a
// browser that has opened the router's page, as the password of `Authorization: Basic`, whatever the
// user's name. The clients of both APIs always send one, so where no keys are known it says nothing.
Door::Shown ShownBy(const HttpRequest& head, const Door& door);

// The key is a password: the browser sends it by itself, so CheckOwnPage is needed.
bool ShowsPassword(const HttpRequest& head);

}  // namespace baton
