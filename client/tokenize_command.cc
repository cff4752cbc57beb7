#include "client/tokenize_command.h"

#include <iostream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/standard_output.h"
#include "common/flags/flag_group.h"
#include "common/gguf/gguf_file.h"
#include "common/hugging_face/open_model_file.h"
#include "common/tokenizer/tokenizer.h"

namespace baton {

void TokenizeCommand::AddFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kGeneral);
  flags.AddPositional("TEXT", text_,
                      "Text to tokenise; without it, standard input is read byte for byte");
  flags.AddString("model=FILE", model_,
                  "GGUF file or Hugging Face folder with the tokenizer; the weights may be "
                  "missing");
  flags.AddBool("special", special_,
                "Recognise special tokens that are written out in the text, such as <|im_end|>");
  flags.AddBool("lossy", lossy_,
                "Leave out bytes that the vocabulary has no token for, instead of failing");
  flags.AddExample("baton tokenize --model model.gguf \"Hello\"", "Print the ids, such as [19556]");
  flags.AddExample("baton tokenize --model model.gguf --special \"Hello<|im_end|>\"",
                   "Recognise the special token at the end");
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
    return ExitUsage("baton tokenize", absl::InvalidArgumentError(
                                           absl::StrCat("the text: ", ids.status().message(),
                                                        "; give --lossy to leave such bytes out")));
  }
  WriteOutput(absl::StrCat("[", absl::StrJoin(*ids, ","), "]\n"));
  return 0;
}

}  // namespace baton
