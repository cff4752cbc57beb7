// Where the value of a flag comes from that the command line does not have: the environment, then
// the TOML file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/flags/config_file.h"
#include "common/flags/flag.h"

namespace baton {

// Immutable, but it looks into the environment at each call.
class FlagSources {
 public:
  // Reads the file at `path`, or if that is empty the one that BATON_CONFIG names. It is no error
  // if neither names one.
  static absl::StatusOr<FlagSources> Read(std::string path);

  // INVALID_ARGUMENT if the file has a key that is none of `names`. It names the file and the key.
  absl::Status CheckKeys(const std::vector<std::string>& names) const;
  // What the flag is given; nothing if no source has it.
  FlagTexts Find(const std::string& flag) const;

 private:
  FlagSources(std::string path, ConfigValues file);

  std::string path_;  // the file's; empty: there is none
  ConfigValues file_;
};

}  // namespace baton
