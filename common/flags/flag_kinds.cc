// The kinds of flags, each with its conversion of text into a value.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_value.h"
#include "common/flags/flags.h"

namespace baton {
namespace {

FlagSet::Value ListOf(std::vector<std::string>& values) {
  return {.set =
              [&values](const std::string& text) {
                values.push_back(text);
                return absl::OkStatus();
              },
          .default_text = absl::StrJoin(values, ","),
          .clear = [&values] { values.clear(); }};
}

}  // namespace

void FlagSet::AddString(const std::string& name, std::string& value, const std::string& help,
                        std::vector<std::string> choices) {
  if (!choices.empty()) {
    const auto take = [&value, choices](size_t index) { value = choices[index]; };
    return AddChoice(name, value, help, choices, take);
  }
  const auto set = [&value](const std::string& text) {
    value = text;
    return absl::OkStatus();
  };
  Add(name, help, {.set = set, .default_text = value});
}

void FlagSet::AddChoice(const std::string& name, const std::string& default_text,
                        const std::string& help, std::vector<std::string> choices,
                        std::function<void(size_t index)> take) {
  const std::string all = absl::StrCat(help, ": ", absl::StrJoin(choices, ", "));
  const auto set = [take = std::move(take), choices = std::move(choices)](const std::string& text) {
    const auto found = std::find(choices.begin(), choices.end(), text);
    if (found == choices.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("is not one of ", absl::StrJoin(choices, ", ")));
    }
    take(static_cast<size_t>(found - choices.begin()));
    return absl::OkStatus();
  };
  Add(name, all, {.set = set, .default_text = default_text});
}

void FlagSet::AddStrings(const std::string& name, std::vector<std::string>& values,
                         const std::string& help) {
  Add(name, help, ListOf(values));
}

void FlagSet::AddTexts(const std::string& name, std::vector<std::string>& values,
                       const std::string& help) {
  Value list = ListOf(values);
  list.split_at_commas = false;
  Add(name, help, std::move(list));
}

void FlagSet::AddAddress(const std::string& name, std::string& value, const std::string& help) {
  const auto set = [&value, optional = value.empty()](const std::string& text) -> absl::Status {
    if (optional && text.empty()) {
      value.clear();
      return absl::OkStatus();
    }
    BATON_ASSIGN_OR_RETURN(value, NormalAddress(text));
    return absl::OkStatus();
  };
  Add(name, help, {.set = set, .default_text = value});
}

void FlagSet::AddAddresses(const std::string& name, std::vector<std::string>& values,
                           const std::string& help) {
  const auto set = [&values](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(std::string address, NormalAddress(text));
    values.push_back(std::move(address));
    return absl::OkStatus();
  };
  Add(name, help, {.set = set, .default_text = absl::StrJoin(values, ","), .clear = [&values] {
                     values.clear();
                   }});
}

void FlagSet::AddInt(const std::string& name, int& value, int min, int max,
                     const std::string& help) {
  const auto set = [&value, min, max](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(value, ParseInt(text, min, max));
    return absl::OkStatus();
  };
  Add(name, help, {.set = set, .default_text = absl::StrCat(value)});
}

void FlagSet::AddInts(const std::string& name, std::vector<int>& values, int min, int max,
                      const std::string& help) {
  const auto set = [&values, min, max](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(values.emplace_back(), ParseInt(text, min, max));
    return absl::OkStatus();
  };
  Add(name, help, {.set = set, .default_text = absl::StrJoin(values, ","), .clear = [&values] {
                     values.clear();
                   }});
}

void FlagSet::AddDouble(const std::string& name, double& value, double min, double max,
                        const std::string& help) {
  const auto set = [&value, min, max](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(value, ParseNumber(text, min, max));
    return absl::OkStatus();
  };
  Add(name, help, {.set = set, .default_text = absl::StrCat(value)});
}

void FlagSet::AddBytes(const std::string& name, uint64_t& value, const std::string& help) {
  const auto set = [&value](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(value, ParseCount(text));
    return absl::OkStatus();
  };
  Add(name, help, {.set = set, .default_text = absl::StrCat(value)});
}

void FlagSet::AddDuration(const std::string& name, absl::Duration& value, absl::Duration min,
                          absl::Duration max, const std::string& help) {
  const auto set = [&value, min, max](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const absl::Duration duration, ParseDurationValue(text));
    if (duration < min || duration > max) {
      return absl::InvalidArgumentError(absl::StrCat("is not from ", absl::FormatDuration(min),
                                                     " to ", absl::FormatDuration(max)));
    }
    value = duration;
    return absl::OkStatus();
  };
  Add(name, help, {.set = set, .default_text = absl::FormatDuration(value)});
}

}  // namespace baton
