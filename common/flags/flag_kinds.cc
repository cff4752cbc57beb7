#include "common/flags/flag_kinds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_value.h"

namespace baton {

namespace {

constexpr char kAddressPlaceholder[] = "HOST:PORT";

// The number of bytes with the largest unit of which it is a multiple, such as "256 MiB" or "2 GB".
std::string BytesText(uint64_t bytes) {
  constexpr uint64_t kKibi = 1024;
  constexpr uint64_t kKilo = 1000;
  constexpr std::pair<uint64_t, const char*> kUnits[] = {{kKibi * kKibi * kKibi, " GiB"},
                                                         {kKilo * kKilo * kKilo, " GB"},
                                                         {kKibi * kKibi, " MiB"},
                                                         {kKilo * kKilo, " MB"},
                                                         {kKibi, " KiB"},
                                                         {kKilo, " kB"}};
  for (const auto& [size, name] : kUnits) {
    if (bytes != 0 && bytes % size == 0) return absl::StrCat(bytes / size, name);
  }
  return absl::StrCat(bytes);
}

}  // namespace

FlagValue StringValue(std::string& value) {
  const auto set = [&value](const std::string& text) {
    value = text;
    return absl::OkStatus();
  };
  return {.set = set, .default_text = value};
}

FlagValue ChoiceValue(const std::string& default_text, std::vector<std::string> choices,
                      std::function<void(size_t index)> take) {
  const auto set = [take = std::move(take), choices](const std::string& text) {
    const auto found = std::find(choices.begin(), choices.end(), text);
    if (found == choices.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("is not one of ", absl::StrJoin(choices, ", ")));
    }
    take(static_cast<size_t>(found - choices.begin()));
    return absl::OkStatus();
  };
  std::string placeholder = absl::StrJoin(choices, "|");
  return {.set = set,
          .default_text = default_text,
          .choices = std::move(choices),
          .placeholder = std::move(placeholder)};
}

FlagValue StringsValue(std::vector<std::string>& values) {
  return {.set =
              [&values](const std::string& text) {
                values.push_back(text);
                return absl::OkStatus();
              },
          .default_text = absl::StrJoin(values, ","),
          .clear = [&values] { values.clear(); }};
}

FlagValue TextsValue(std::vector<std::string>& values) {
  FlagValue texts = StringsValue(values);
  texts.split_at_commas = false;
  return texts;
}

FlagValue AddressValue(std::string& value) {
  const auto set = [&value, optional = value.empty()](const std::string& text) -> absl::Status {
    if (optional && text.empty()) {
      value.clear();
      return absl::OkStatus();
    }
    BATON_ASSIGN_OR_RETURN(value, NormalAddress(text));
    return absl::OkStatus();
  };
  return {.set = set, .default_text = value, .placeholder = kAddressPlaceholder};
}

FlagValue AddressesValue(std::vector<std::string>& values) {
  FlagValue addresses = StringsValue(values);
  addresses.set = [&values](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(std::string address, NormalAddress(text));
    values.push_back(std::move(address));
    return absl::OkStatus();
  };
  addresses.placeholder = kAddressPlaceholder;
  return addresses;
}

FlagValue IntValue(int& value, int min, int max) {
  const auto set = [&value, min, max](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(value, ParseInt(text, min, max));
    return absl::OkStatus();
  };
  // A default beyond the limits stands for no value.
  const std::string default_text = value < min ? "" : absl::StrCat(value);
  return {.set = set, .default_text = default_text, .placeholder = "N"};
}

FlagValue IntsValue(std::vector<int>& values, int min, int max) {
  const auto set = [&values, min, max](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(values.emplace_back(), ParseInt(text, min, max));
    return absl::OkStatus();
  };
  return {.set = set,
          .default_text = absl::StrJoin(values, ","),
          .clear = [&values] { values.clear(); },
          .placeholder = "N"};
}

FlagValue DoubleValue(double& value, double min, double max) {
  const auto set = [&value, min, max](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(value, ParseNumber(text, min, max));
    return absl::OkStatus();
  };
  return {.set = set, .default_text = absl::StrCat(value), .placeholder = "X"};
}

FlagValue BytesValue(uint64_t& value) {
  const auto set = [&value](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(value, ParseCount(text));
    return absl::OkStatus();
  };
  return {.set = set, .default_text = BytesText(value), .placeholder = "SIZE"};
}

FlagValue DurationValue(absl::Duration& value, absl::Duration min, absl::Duration max) {
  const auto set = [&value, min, max](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const absl::Duration duration, ParseDurationValue(text));
    if (duration < min || duration > max) {
      return absl::InvalidArgumentError(absl::StrCat("is not from ", absl::FormatDuration(min),
                                                     " to ", absl::FormatDuration(max)));
    }
    value = duration;
    return absl::OkStatus();
  };
  return {.set = set, .default_text = absl::FormatDuration(value), .placeholder = "DURATION"};
}

FlagValue BoolValue(std::function<void(bool)> take, bool is_on) {
  const auto set = [take = std::move(take)](const std::string& text) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const bool value, ParseBool(text));
    take(value);
    return absl::OkStatus();
  };
  return {.set = set, .default_text = is_on ? "on" : "", .placeholder = ""};
}

}  // namespace baton
