// `baton models` says what model files are, what they take in memory, and whether they are served.
#pragma once

#include <string>
#include <vector>

#include "client/models/model_facts.h"
#include "common/flags/command.h"

namespace baton {

// Prints a table or JSON. Exit codes: 0, whether the models are served or not; 2, with a line on
// stderr for each, if a path is not there or holds no model; and those of WriteOutput.
class ModelsCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  std::vector<std::string> paths_;
  std::string device_ = "auto";
  ServingOptions options_;
  bool json_ = false;
};

}  // namespace baton
