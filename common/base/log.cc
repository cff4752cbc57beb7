#include "common/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace baton {

absl::Status InitLogging(const std::string& role, const std::string& level,
                         const std::string& format) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--log-level: '", level, "' is none of trace, debug, info, warning, error, off"));
  }
  auto logger = std::make_shared<spdlog::logger>(
      role, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_level(parsed);
  if (format == "text") {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%L%$ [%n] %v");
  } else if (format == "json") {
    // %v is safe inside a JSON string: messages are our own words, and what comes from outside passes LogSafe().
    logger->set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%f%z","level":"%l","role":"%n","message":"%v"})");
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-format: '", format, "' is neither text nor json"));
  }
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

std::string LogSafe(absl::string_view text) {
  constexpr size_t kMaxBytes = 200;
  const bool cut = text.size() > kMaxBytes;
  // CHexEscape escapes quotes and backslashes too, which keeps JSON lines whole once \x is doubled.
  std::string safe = absl::CHexEscape(text.substr(0, kMaxBytes));
  return cut ? absl::StrCat(safe, "...") : safe;
}

}  // namespace baton
