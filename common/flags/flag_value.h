// Values of flags from text.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton {

// "4096", "4k" (4000), "4K" (4096), "1.5GiB", "20MB". Not negative, a whole number in the end.
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);

// "true", "1", "yes", "on" and their opposites.
absl::StatusOr<bool> ParseBool(absl::string_view text);

// "250ms", "30s", "1h30m"; a unit is needed.
absl::StatusOr<absl::Duration> ParseDurationValue(absl::string_view text);

// A ParseCount, or one after a minus sign.
absl::StatusOr<int> ParseInt(absl::string_view text, int min, int max);

// Finite.
absl::StatusOr<double> ParseNumber(absl::string_view text);
absl::StatusOr<double> ParseNumber(absl::string_view text, double min, double max);

}  // namespace baton
