#include "client/tokenize_command.h"

#include <iostream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/standard_output.h"
#include "common/gguf/gguf_file.h"
#include "common/hugging_face/open_model_file.h"
#include "common/tokenizer/tokenizer.h"

namespace baton {

void TokenizeCommand::AddFlags(FlagSet& flags) {
  flags.AddString("model", model_,
                  "GGUF file, whose metadata part is enough, or Hugging Face folder");
  flags.AddBool("special", special_, "recognise special-token literals");
  flags.AddBool("lossy", lossy_,
                "leave out bytes that the vocabulary has no token for, instead of an error");
  flags.AddPositional("text", text_, "the text; without it stdin, byte for byte");
}

int TokenizeCommand::Run(const FlagSet&) {
  if (model_.empty()) {
    return ExitUsage("baton tokenize", absl::InvalidArgumentError(
                                           "--model: name a GGUF file or a Hugging Face folder"));
  }
  const auto file = OpenModelFile(model_, GgufFile::Part::kTokenizer);
  if (!file.ok()) return ExitUsage("baton tokenize", file.status());
  const auto tokenizer = Tokenizer::Load(*file);
  if (!tokenizer.ok()) return ExitUsage("baton tokenize", tokenizer.status());
  const std::string text =
      text_.has_value() ? *text_ : std::string(std::istreambuf_iterator<char>(std::cin), {});
  const auto ids = (*tokenizer)->Encode(text, {.parse_special = special_, .lossy = lossy_});
  if (!ids.ok()) {
    return ExitUsage("baton tokenize",
                     absl::InvalidArgumentError(absl::StrCat("the text: ", ids.status().message(),
                                                             "; --lossy leaves such bytes out")));
  }
  WriteOutput(absl::StrCat("[", absl::StrJoin(*ids, ","), "]\n"));
  return 0;
}

}  // namespace baton
