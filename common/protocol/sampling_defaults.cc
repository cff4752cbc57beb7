#include "common/protocol/sampling_defaults.h"

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"
#include "common/protocol/model_sampling.h"

namespace baton {
namespace {

constexpr double kLeastTopP = 1e-6;

}  // namespace

void AddSamplingDefaultFlags(FlagSet& flags, SamplingDefaults& defaults, const std::string& note) {
  flags.SetGroup(FlagGroup::kSampling);
  flags.AddString(
      "generation-config", defaults.generation_config,
      absl::StrCat("Source of sampling values that a request leaves out. auto: the model's "
                   "file, then --default-temperature and --default-top-p; none: only these two",
                   note),
      {"auto", "none"});
  flags.AddDouble(
      "default-temperature", defaults.temperature, 0, 100,
      absl::StrCat("Temperature if neither the request nor the model's file sets one; 0: greedy",
                   note));
  flags.AddDouble(
      "default-top-p", defaults.top_p, kLeastTopP, 1,
      absl::StrCat("Top-p if neither the request nor the model's file sets one; 1: off", note));
}

void FillTemperatureAndTopP(const SamplingDefaults& defaults, v1::SamplingParams& params) {
  if (!params.has_temperature()) params.set_temperature(static_cast<float>(defaults.temperature));
  if (!params.has_top_p()) params.set_top_p(static_cast<float>(defaults.top_p));
}

absl::StatusOr<v1::SamplingParams> DefaultSampling(const GgufFile& file,
                                                   const SamplingDefaults& defaults) {
  v1::SamplingParams params;
  if (defaults.generation_config == "auto") {
    BATON_ASSIGN_OR_RETURN(params, ReadModelSampling(file));
  }
  FillTemperatureAndTopP(defaults, params);
  return params;
}

}  // namespace baton
