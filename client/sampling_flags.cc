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
#include "common/flags/flag_group.h"
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
  flags.SetGroup(FlagGroup::kRequest);
  flags.Add("n,max-tokens=N",
            absl::StrCat("Maximum number of tokens to generate; without it, ", kDefaultMaxTokens,
                         " or the rest of the context if that is less. For the number of answers "
                         "see --n"),
            Whole(1, [p](int value) { p->set_max_tokens(static_cast<uint32_t>(value)); }));
  flags.Add("min-tokens=N", "Minimum number of tokens to generate; 0: no minimum",
            Whole(0, [p](int value) { p->set_min_tokens(static_cast<uint32_t>(value)); }));
  flags.Add("temperature=X",
            "Randomness of sampling; 0: always take the most likely token. Without it, the value "
            "in the model's file applies, or else the server's --default-temperature",
            Number(0, 100, [p](float value) { p->set_temperature(value); }));
  flags.Add(
      "top-p=X",
      "Sample only from the most likely tokens that together have this probability; 1: no limit. "
      "Without it, the value in the model's file applies, or else the server's --default-top-p",
      Number(kLeast, 1, [p](float value) { p->set_top_p(value); }));
  flags.Add("top-k=N",
            "Sample only from this many of the most likely tokens; 0: no limit. Without it, the "
            "value in the model's file applies",
            Whole(-1, [p](int value) { p->set_top_k(value); }));
  flags.Add("min-p=X",
            "Sample only tokens with at least this fraction of the most likely token's "
            "probability; 0: no limit. Without it, the value in the model's file applies",
            Number(0, 1, [p](float value) { p->set_min_p(value); }));
  flags.Add("presence-penalty=X",
            "Amount, -2 to 2, by which the score of tokens that already occur in the answer is "
            "lowered; 0: no change",
            Number(-2, 2, [p](float value) { p->set_presence_penalty(value); }));
  flags.Add("frequency-penalty=X",
            "Amount, -2 to 2, by which a token's score is lowered for each time it occurs in the "
            "answer; 0: no change",
            Number(-2, 2, [p](float value) { p->set_frequency_penalty(value); }));
  flags.Add("repetition-penalty=X",
            "Factor by which tokens that occur in the prompt or the answer become less likely; 1: "
            "no change. Without it, the value in the model's file applies",
            Number(kLeast, 100, [p](float value) { p->set_repetition_penalty(value); }));
  flags.Add("seed=N",
            "Seed of the sampling; the same request with the same seed has the same answer. "
            "Without it, a random seed is used, which --stats and --json print",
            Seed(params));
  flags.Add("stop=TEXT", "End the answer before this text; repeat for further texts",
            Stops(params));
  flags.AddBool(
      "ignore-eos", [p](bool value) { p->set_ignore_eos(value); },
      "Continue after the model's end-of-answer token, up to --max-tokens");
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
