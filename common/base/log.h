// Logging: spdlog behind one header, on stderr. LogInfo("loaded {} tensors in {}", n, seconds).
//
// Thread-safe. A message is one line, and in JSON one valid object, whatever is in it. Text from
// outside (prompts, names in files) must pass through LogSafe() too, which bounds its length, so
// that a client cannot flood the log.
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

template <typename... Args>
void LogDebug(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::debug(format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogInfo(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::info(format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarning(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::warn(format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogError(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::error(format, std::forward<Args>(args)...);
}

}  // namespace baton
