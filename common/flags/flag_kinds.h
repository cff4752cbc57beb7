// The kinds of flags: how the text of each becomes its value.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace baton {

// How the text of a flag becomes its value.
struct FlagValue {
  // Sets the value from one text. An error says what is wrong with the text, without the flag.
  std::function<absl::Status(const std::string& text)> set;
  std::string default_text = "";  // the default as people write it; empty: none, or nothing
  // Drops the values of a flag with several values. Null: the flag has one value.
  std::function<void()> clear = nullptr;
  bool split_at_commas = true;            // whether commas separate values, if the flag has several
  std::vector<std::string> choices = {};  // the allowed texts; empty: not a fixed set
  std::string placeholder = "TEXT";       // what --help shows for the value; empty for a switch
};

// The functions below make the kinds. They borrow `value`, whose present content is the default.

FlagValue StringValue(std::string& value);
// One of `choices`. `take` gets the index of the choice.
FlagValue ChoiceValue(const std::string& default_text, std::vector<std::string> choices,
                      std::function<void(size_t index)> take);
// Separated by commas.
FlagValue StringsValue(std::vector<std::string>& values);
// One in each text: commas belong to it.
FlagValue TextsValue(std::vector<std::string>& values);
// In the form of NormalAddress. It may be empty if the default is.
FlagValue AddressValue(std::string& value);
FlagValue AddressesValue(std::vector<std::string>& values);
// In [min, max].
FlagValue IntValue(int& value, int min, int max);
FlagValue IntsValue(std::vector<int>& values, int min, int max);
FlagValue DoubleValue(double& value, double min, double max);
FlagValue BytesValue(uint64_t& value);
// In [min, max].
FlagValue DurationValue(absl::Duration& value, absl::Duration min, absl::Duration max);
// `is_on` is the default.
FlagValue BoolValue(std::function<void(bool)> take, bool is_on);

}  // namespace baton
