// Logging to stderr, by spdlog: LogInfo("loaded {} tensors in {}", n, seconds).
//
// Thread-safe, except InitLogging, which main calls before it starts threads. A message is always
// one line, and in JSON one valid object, whatever it contains. Its time is in UTC. Text from
// outside (prompts, names in files) must pass through LogSafe(), which bounds its length, so that a
// client cannot flood the log.
#pragma once

#include <spdlog/spdlog.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

// Sets up logging. `role` stands in every line; it must be a name of the program, not text from
// outside. `level` is trace, debug, info, warning, error or off. `format` is text or json (one
// object a line). INVALID_ARGUMENT names the flag of a wrong value.
absl::Status InitLogging(const std::string& role, const std::string& level,
                         const std::string& format);

// The first `most_bytes` of `text`, then "..." when there are more. Each byte but printable ASCII,
// and the quote and the backslash, is written \u00NN, so that the result may stand inside a JSON
// string or between quotes.
std::string LogSafe(absl::string_view text, size_t most_bytes = 200);

// The logger of all messages. Until InitLogging it writes level info and above as text to stderr.
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
