// Logging: spdlog behind one header, on stderr. LogInfo("loaded {} tensors in {}", n, seconds).
//
// Thread-safe. Text from outside (prompts, names in files) must pass through LogSafe(): control characters are escaped
// and the length is bounded, so that a client cannot forge or flood log lines.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

// level: trace, debug, info, warning, error. format: text, json (one object a line). `role` stands in every line.
absl::Status InitLogging(const std::string& role, const std::string& level,
                         const std::string& format);

// At most 200 characters of `text`, everything but printable ASCII escaped.
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
