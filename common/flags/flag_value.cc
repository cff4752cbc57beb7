#include "common/flags/flag_value.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

constexpr double kMaxExact = 9007199254740992.0;  // 2^53: above, a double is no exact count

// The factor of a suffix; 0 if `suffix` is unknown.
double Multiplier(absl::string_view suffix) {
  constexpr double kKilo = 1000;
  constexpr double kKibi = 1024;
  constexpr std::array<std::pair<absl::string_view, double>, 20> kSuffixes = {{
      {"", 1},
      {"B", 1},
      {"k", kKilo},
      {"kB", kKilo},
      {"KB", kKilo},
      {"K", kKibi},
      {"KiB", kKibi},
      {"m", kKilo * kKilo},
      {"MB", kKilo * kKilo},
      {"M", kKibi * kKibi},
      {"MiB", kKibi * kKibi},
      {"g", kKilo * kKilo * kKilo},
      {"GB", kKilo * kKilo * kKilo},
      {"G", kKibi * kKibi * kKibi},
      {"GiB", kKibi * kKibi * kKibi},
      {"Gi", kKibi * kKibi * kKibi},
      {"Mi", kKibi * kKibi},
      {"Ki", kKibi},
      {"TB", kKilo * kKilo * kKilo * kKilo},
      {"TiB", kKibi * kKibi * kKibi * kKibi},
  }};
  for (const auto& [name, multiplier] : kSuffixes) {
    if (name == suffix) return multiplier;
  }
  return 0;
}

}  // namespace

absl::StatusOr<uint64_t> ParseCount(absl::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const absl::string_view number = text.substr(0, digits);
  const double multiplier = Multiplier(absl::StripAsciiWhitespace(text.substr(digits)));
  uint64_t whole = 0;
  if (multiplier == 1 && absl::SimpleAtoi(number, &whole)) return whole;
  double value = 0;
  const bool is_number = !number.empty() && absl::SimpleAtod(number, &value);
  value *= multiplier;
  if (!is_number || multiplier == 0 || value > kMaxExact || value != std::floor(value)) {
    return absl::InvalidArgumentError("is not a number such as 4096, 4k, 4K or 2GiB");
  }
  return static_cast<uint64_t>(value);
}

absl::StatusOr<int> ParseInt(absl::string_view text, int min, int max) {
  const bool negative = absl::ConsumePrefix(&text, "-");
  const auto count = ParseCount(text);
  const bool fits = count.ok() && *count <= uint64_t{1} << 31;
  const int64_t number = fits ? static_cast<int64_t>(*count) * (negative ? -1 : 1) : 0;
  if (!fits || number < min || number > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("is not a whole number from ", min, " to ", max));
  }
  return static_cast<int>(number);
}

absl::StatusOr<bool> ParseBool(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* yes : {"true", "1", "yes", "on"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"false", "0", "no", "off"}) {
    if (lower == no) return false;
  }
  return absl::InvalidArgumentError("is neither true nor false");
}

absl::StatusOr<absl::Duration> ParseDurationValue(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError("is not a duration with a unit, such as 250ms, 30s or 2m");
  }
  return duration;
}

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
    return absl::InvalidArgumentError("is not a number");
  }
  return value;
}

absl::StatusOr<double> ParseNumber(absl::string_view text, double min, double max) {
  const auto number = ParseNumber(text);
  if (number.ok() && *number >= min && *number <= max) return number;
  return absl::InvalidArgumentError(absl::StrCat("is not a number from ", min, " to ", max));
}

}  // namespace baton
