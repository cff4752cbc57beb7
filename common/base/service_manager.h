// Messages of a service to the manager that has started it, such as systemd.
#pragma once

#include "absl/strings/string_view.h"

namespace baton {

inline constexpr char kServiceReady[] = "READY=1";
inline constexpr char kServiceStopping[] = "STOPPING=1";

// Sends `state` to the socket that the environment's NOTIFY_SOCKET names, as sd_notify(3) does, and
// waits for room there for at most a second. Returns whether it was sent; false without the
// variable. Thread-safe as long as nothing changes the environment.
bool NotifyServiceManager(absl::string_view state);

}  // namespace baton
