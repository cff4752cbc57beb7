// `baton tokenize`: text to token ids, with the tokenizer of a model file.
#pragma once

#include <optional>
#include <string>

#include "common/flags/command.h"

namespace baton {

// Prints the ids as a JSON array. The exit code: 0, or 2 with one line on stderr.
class TokenizeCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  std::string model_;                // needs only the metadata part of the file
  std::optional<std::string> text_;  // none: stdin, byte for byte
  bool special_ = false;             // special-token literals become control tokens
  bool lossy_ = false;               // a byte that no token can stand for is left out
};

}  // namespace baton
