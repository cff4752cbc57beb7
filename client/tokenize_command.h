// `baton tokenize` turns text into token ids with the tokenizer of a model file.
#pragma once

#include <optional>
#include <string>

#include "common/flags/command.h"

namespace baton {

// Prints the ids as a JSON array. Exit codes: 0, or 2 with one line on stderr.
class TokenizeCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  std::string model_;                // path of a GGUF file; only its metadata is read
  std::optional<std::string> text_;  // nullopt: stdin, byte for byte
  bool special_ = false;             // literals of special tokens become control tokens
  bool lossy_ = false;               // bytes that no token can stand for are left out
};

}  // namespace baton
