// Helps of flags that have one meaning in several commands.
#pragma once

namespace baton {

inline constexpr char kJsonHelp[] = "Print JSON instead of text";
inline constexpr char kRequestTimeoutHelp[] = "Time limit of one request";
inline constexpr char kHttpRouterHelp[] = "Router to query over HTTP, as HOST:PORT or a URL";

}  // namespace baton
