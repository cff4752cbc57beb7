#include "client/sampling_flags.h"

#include <google/protobuf/text_format.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "client/utf8_check.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_value.h"

namespace baton {
namespace {

constexpr double kLeast = 1e-6;  // least value of a number that must be above 0

FlagSet::Value Number(double min, double max, const std::function<void(float)>& take) {
  return {.set = [=](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const double value, ParseNumber(text, min, max));
    take(static_cast<float>(value));
    return absl::OkStatus();
  }};
}

FlagSet::Value Whole(int min, const std::function<void(int)>& take) {
  return {.set = [=](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const int value, ParseInt(text, min, INT32_MAX));
    take(value);
    return absl::OkStatus();
  }};
}

FlagSet::Value Seed(v1::SamplingParams& params) {
  return {.set = [&params](const std::string& text) {
    const auto seed = ParseCount(text);
    if (!seed.ok()) {
      return absl::InvalidArgumentError("is not a whole number from 0 to 18446744073709551615");
    }
    params.set_seed(*seed);
    return absl::OkStatus();
  }};
}

FlagSet::Value Stops(v1::SamplingParams& params) {
  return {.set = [&params](const std::string& text) -> absl::Status {
            if (text.empty())
              return absl::InvalidArgumentError("is empty; give the text at which to stop");
            BATON_RETURN_IF_ERROR(CheckUtf8(text));
            params.add_stop(text);
            return absl::OkStatus();
          },
          .clear = [&params] { params.clear_stop(); },
          .split_at_commas = false};
}

}  // namespace

void AddSamplingFlags(FlagSet& flags, v1::SamplingParams& params) {
  v1::SamplingParams* const p = &params;
  flags.Add("n,max-tokens",
            absl::StrCat("most tokens to generate; default ", kDefaultMaxTokens,
                         ", or what the context leaves"),
            Whole(1, [p](int value) { p->set_max_tokens(static_cast<uint32_t>(value)); }));
  flags.Add("min-tokens", "fewest tokens to generate",
            Whole(0, [p](int value) { p->set_min_tokens(static_cast<uint32_t>(value)); }));
  flags.Add("temperature",
            "Randomness of the choice of tokens; 0: greedy. Default, as of top-p, top-k, min-p and "
            "repetition-penalty: what the model's file recommends, else 0.7 (or the server's "
            "--default-temperature)",
            Number(0, 100, [p](float value) { p->set_temperature(value); }));
  flags.Add("top-p",
            "Sample only from the most likely tokens that have this probability together; 1: off. "
            "Default: what the model's file recommends, else 0.95",
            Number(kLeast, 1, [p](float value) { p->set_top_p(value); }));
  flags.Add("top-k", "only so many of the likeliest tokens; 0: off",
            Whole(-1, [p](int value) { p->set_top_k(value); }));
  flags.Add("min-p", "only tokens at least so likely as a part of the likeliest; 0: off",
            Number(0, 1, [p](float value) { p->set_min_p(value); }));
  flags.Add("presence-penalty", "for tokens that the answer has; 0: off",
            Number(-2, 2, [p](float value) { p->set_presence_penalty(value); }));
  flags.Add("frequency-penalty", "as often as the answer has the token; 0: off",
            Number(-2, 2, [p](float value) { p->set_frequency_penalty(value); }));
  flags.Add("repetition-penalty", "for tokens that prompt or answer have; 1: off",
            Number(kLeast, 100, [p](float value) { p->set_repetition_penalty(value); }));
  flags.Add("seed", "same seed, same answer; default: drawn, and told by --stats and --json",
            Seed(params));
  flags.Add("stop", "end before this text; may be repeated", Stops(params));
  flags.AddBool(
      "ignore-eos", [p](bool value) { p->set_ignore_eos(value); },
      "go on after the model's end of answer");
}

std::string SamplingText(const v1::SamplingParams& params) {
  const google::protobuf::Reflection& reflection = *params.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(params, &fields);
  std::vector<std::string> shown;
  for (const google::protobuf::FieldDescriptor* const field : fields) {
    const int values = field->is_repeated() ? reflection.FieldSize(params, field) : 1;
    for (int i = 0; i < values; ++i) {
      std::string value;
      google::protobuf::TextFormat::PrintFieldValueToString(params, field,
                                                            field->is_repeated() ? i : -1, &value);
      shown.push_back(absl::StrCat(absl::StrReplaceAll(field->name(), {{"_", "-"}}), " ", value));
    }
  }
  return absl::StrJoin(shown, ", ");
}

}  // namespace baton
