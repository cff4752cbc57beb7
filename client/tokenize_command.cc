#include "client/tokenize_command.h"

#include <cstdio>
#include <iostream>
#include <iterator>

#include "absl/strings/str_join.h"

#include "common/gguf/gguf_file.h"
#include "common/rpc/flags.h"
#include "common/tokenizer/tokenizer.h"

namespace baton {

int TokenizeCommand(const TokenizeOptions& options) {
  const auto file = GgufFile::Open(options.model, GgufFile::Part::kTokenizer);
  if (!file.ok()) return ExitUsage("baton tokenize", file.status());
  const auto tokenizer = Tokenizer::Load(*file);
  if (!tokenizer.ok()) return ExitUsage("baton tokenize", tokenizer.status());
  const std::string text = options.text.has_value()
                               ? *options.text
                               : std::string(std::istreambuf_iterator<char>(std::cin), {});
  const auto ids = (*tokenizer)->Encode(text, {.parse_special = options.special});
  std::printf("[%s]\n", absl::StrJoin(ids, ",").c_str());
  return 0;
}

}  // namespace baton
