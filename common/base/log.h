// Logging: spdlog behind one header, on stderr. LogInfo("loaded {} tensors in {}", n, seconds).
//
// Thread-safe, but for InitLogging, which main calls before it starts threads. A message is one
// line, and in JSON one valid object, whatever is in it. Text from outside (prompts, names in
// files) must pass through LogSafe() too, which bounds its length, so that a client cannot flood
// the log.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

// level: trace, debug, info, warning, error, off. format: text, json (one object a line). `role`
// stands in every line; it is our own word. INVALID_ARGUMENT names the flag of the value that is
// none of these.
absl::Status InitLogging(const std::string& role, const std::string& level,
                         const std::string& format);

// The first 200 bytes of `text`, then "..." when there are more. Each byte but printable ASCII, and
// the quote and the backslash, is written \u00NN, so that the result may stand inside a JSON string
// or between quotes.
std::string LogSafe(absl::string_view text);

// Where messages go: stderr as text from level info up, until InitLogging says otherwise.
spdlog::logger& CurrentLogger();

// Whether LogInfo would write anything.
inline bool LogsInfo() { return CurrentLogger().should_log(spdlog::level::info); }

template <typename... Args>
void LogDebug(spdlog::format_string_t<Args...> format, Args&&... args) {
  CurrentLogger().debug(format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogInfo(spdlog::format_string_t<Args...> format, Args&&... args) {
  CurrentLogger().info(format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarning(spdlog::format_string_t<Args...> format, Args&&... args) {
  CurrentLogger().warn(format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogError(spdlog::format_string_t<Args...> format, Args&&... args) {
  CurrentLogger().error(format, std::forward<Args>(args)...);
}

}  // namespace baton
