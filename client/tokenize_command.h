// `baton tokenize`: text to token ids, with the tokenizer of a model file.
#pragma once

#include <optional>
#include <string>

namespace baton {

struct TokenizeOptions {
  std::string model;                // needs only the metadata part of the file
  std::optional<std::string> text;  // none: stdin, byte for byte
  bool special = false;             // special-token literals become control tokens
};

// Prints the ids as a JSON array. The exit code: 0, or 2 with one line on stderr.
int TokenizeCommand(const TokenizeOptions& options);

}  // namespace baton
