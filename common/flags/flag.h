// One flag of a program: its name, how its text becomes a value, and what it was given.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/flags/flag_kinds.h"

namespace baton {

// The texts that one source has for a flag.
struct FlagTexts {
  std::vector<std::string> values = {};  // empty: the flag stays at its default
  std::string where = "";  // the source for errors, such as " (from BATON_X)"; "": arguments
};

// Not thread-safe.
class Flag {
 public:
  // `name` has no dashes.
  Flag(std::string name, FlagValue value);

  // Sets the value; nothing for no texts. INVALID_ARGUMENT names the flag, the source and the text.
  absl::Status Take(const FlagTexts& texts);

  const std::string& name() const { return name_; }
  // The allowed texts; empty: not a fixed set.
  const std::vector<std::string>& choices() const { return value_.choices; }
  // What --help shows for the value, such as HOST:PORT; empty for a switch.
  const std::string& placeholder() const { return value_.placeholder; }
  // The default as people write it; empty: none, or nothing.
  const std::string& default_text() const { return value_.default_text; }
  // The texts that were taken last, one for each value; empty if none was.
  const std::vector<std::string>& given() const { return given_; }
  // The flag's name for errors about its value: "--name", or with its source, such as
  // "--name (from BATON_NAME)".
  std::string Label() const;

 private:
  const std::string name_;
  const FlagValue value_;
  std::vector<std::string> given_;
  std::string where_;  // the source of given_
};

}  // namespace baton
