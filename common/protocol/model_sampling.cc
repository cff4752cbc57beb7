#include "common/protocol/model_sampling.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/protocol/validate_request.h"

namespace baton {
namespace {

// Each key, and the field of SamplingParams and of generation_config.json that it gives.
constexpr std::pair<absl::string_view, absl::string_view> kKeys[] = {
    {"general.sampling.temp", "temperature"},
    {"general.sampling.top_k", "top_k"},
    {"general.sampling.top_p", "top_p"},
    {"general.sampling.min_p", "min_p"},
    {"general.sampling.penalty_repeat", "repetition_penalty"}};

absl::Status Invalid(const GgufFile& file, absl::string_view field, absl::string_view what) {
  const auto* key = std::find_if(std::begin(kKeys), std::end(kKeys),
                                 [field](const auto& entry) { return entry.second == field; });
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": ", key->first, " (", field, " in a folder's ", "generation_config.json) ",
      what, "; correct it, or ignore the model's sampling settings with --generation-config=none"));
}

// The number at the key of `field`, whatever its type; nothing if the file lacks the key.
absl::StatusOr<std::optional<double>> NumberOf(const GgufFile& file, absl::string_view key,
                                               absl::string_view field) {
  if (!file.Has(key)) return std::nullopt;
  if (const auto number = file.GetFloat(key); number.ok()) return *number;
  const auto whole = file.GetInt(key);
  if (!whole.ok()) return Invalid(file, field, "is not a number");
  return static_cast<double>(*whole);
}

absl::Status SetField(const GgufFile& file, absl::string_view field, double value,
                      v1::SamplingParams& params) {
  if (field == "top_k") {
    if (!(std::abs(value) <= std::numeric_limits<int32_t>::max()) || value != std::floor(value)) {
      return Invalid(file, field, absl::StrCat("must be a whole number, is ", value));
    }
    params.set_top_k(std::max(0, static_cast<int32_t>(value)));
  } else if (field == "temperature") {
    params.set_temperature(static_cast<float>(value));
  } else if (field == "top_p") {
    params.set_top_p(static_cast<float>(value));
  } else if (field == "min_p") {
    params.set_min_p(static_cast<float>(value));
  } else {
    params.set_repetition_penalty(static_cast<float>(value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::SamplingParams> ReadModelSampling(const GgufFile& file) {
  v1::SamplingParams params;
  for (const auto& [key, field] : kKeys) {
    BATON_ASSIGN_OR_RETURN(const std::optional<double> value, NumberOf(file, key, field));
    if (value.has_value()) BATON_RETURN_IF_ERROR(SetField(file, field, *value, params));
  }
  const std::vector<FieldViolation> violations = SamplingViolations(params, {}, "");
  if (violations.empty()) return params;
  return Invalid(file, violations.front().field, violations.front().description);
}

}  // namespace baton
