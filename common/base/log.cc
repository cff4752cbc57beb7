#include "common/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "common/base/log_banner.h"
#include "common/base/standard_error.h"
#include "common/base/terminal_text.h"

namespace baton {
namespace {

bool is_json = false;  // set by InitLogging, before there are threads

void Append(const std::string& text, spdlog::memory_buf_t& line) {
  line.append(text.data(), text.data() + text.size());
}

// Writes %* of the text pattern: the message as ShownLine shows it.
class OneLineMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    Append(ShownLine({message.payload.data(), message.payload.size()}), line);
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<OneLineMessage>();
  }
};

// Writes %* of the JSON pattern: the message as a JSON string, quotes included, in which ShownText
// has escaped what JSON would not. Bytes that are not UTF-8 become U+FFFD.
class JsonMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    const nlohmann::json text = std::string(message.payload.data(), message.payload.size());
    const std::string quoted =
        text.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
    Append(ShownText(quoted), line);
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

template <typename Message>
std::unique_ptr<spdlog::formatter> MakeFormatter(const std::string& pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<Message>('*').set_pattern(pattern);
  return formatter;
}

std::unique_ptr<spdlog::formatter> MakeTextFormatter() {
  return MakeFormatter<OneLineMessage>("%Y-%m-%dT%H:%M:%S.%eZ %^%L%$ [%n] %*");
}
std::unique_ptr<spdlog::formatter> MakeJsonFormatter() {
  return MakeFormatter<JsonMessage>(
      R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l","role":"%n","message":%*})");
}

// Messages go to stderr, because stdout belongs to answers. spdlog needs shared ownership.
void SetLogger(const std::string& role, spdlog::level::level_enum level,
               std::unique_ptr<spdlog::formatter> formatter) {
  auto logger = std::make_shared<spdlog::logger>(
      role, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_level(level);
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

spdlog::logger& CurrentLogger() {
  // This takes the place of spdlog's default logger, which writes to stdout.
  [[maybe_unused]] static const bool replaced = [] {
    SetLogger("baton", spdlog::level::info, MakeTextFormatter());
    return true;
  }();
  return *spdlog::default_logger_raw();
}

absl::Status InitLogging(const std::string& role, const std::string& level,
                         const std::string& format) {
  CurrentLogger();  // made now, so that the first message does not undo the settings below
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--log-level: '", level, "' is not one of trace, debug, info, warning, error, off"));
  }
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-format: '", format, "' is neither text nor json"));
  }
  is_json = format == "json";
  SetLogger(role, parsed, is_json ? MakeJsonFormatter() : MakeTextFormatter());
  return absl::OkStatus();
}

void LogBanner(const std::string& text) {
  if (is_json) return LogInfo("{}", text);
  if (LogsInfo()) WriteNotice(absl::StrCat(text, "\n"));
}

std::string LogSafe(absl::string_view text, size_t most_bytes) {
  std::string safe;
  for (const char c : text.substr(0, most_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      safe.push_back(c);
    } else {
      absl::StrAppendFormat(&safe, "\\u%04x", byte);
    }
  }
  if (text.size() > most_bytes) safe.append("...");
  return safe;
}

}  // namespace baton
