#include "client/run_arguments.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "client/models/model_finder.h"
#include "common/base/log.h"

namespace baton {
namespace {

bool BeginsWithGguf(const std::string& path) {
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(magic, sizeof(magic));
  return file.good() && absl::string_view(magic, sizeof(magic)) == "GGUF";
}

}  // namespace

bool LooksLikeModel(const std::string& text) {
  if (absl::EndsWith(text, ".gguf")) return true;
  struct stat facts;
  if (text.empty() || stat(text.c_str(), &facts) != 0) return false;
  return S_ISREG(facts.st_mode) ? BeginsWithGguf(text) : IsModelFolder(text);
}

absl::StatusOr<RunArguments> ReadRunArguments(const std::optional<std::string>& first,
                                              const std::optional<std::string>& second) {
  if (!first.has_value()) return RunArguments();
  const bool model = LooksLikeModel(*first);
  if (!second.has_value()) {
    return model ? RunArguments{.model = *first} : RunArguments{.model = "", .prompt = first};
  }
  if (model) return RunArguments{.model = *first, .prompt = second};
  return absl::InvalidArgumentError(
      absl::StrCat("'", LogSafe(*first),
                   "' is not a GGUF file or a Hugging Face folder; if there are two arguments, the "
                   "first must be a model, so quote a prompt that has spaces"));
}

}  // namespace baton
