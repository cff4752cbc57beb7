// Parsers of the values of flags. An error says what is wrong with the text, without the flag.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton {

// Parses a count such as "4096", "4k" (4000), "4K" (4096), "1.5GiB" or "20MB". The result must be a
// whole number and not negative.
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);

// Parses "true", "1", "yes", "on" and their opposites.
absl::StatusOr<bool> ParseBool(absl::string_view text);

// Parses a duration with its unit, such as "250ms", "30s" or "1h30m".
absl::StatusOr<absl::Duration> ParseDurationValue(absl::string_view text);

// Parses a count as ParseCount does, or one after a minus sign. The result is in [min, max].
absl::StatusOr<int> ParseInt(absl::string_view text, int min, int max);

// Parses a finite number, in the second form one in [min, max].
absl::StatusOr<double> ParseNumber(absl::string_view text);
absl::StatusOr<double> ParseNumber(absl::string_view text, double min, double max);

}  // namespace baton
