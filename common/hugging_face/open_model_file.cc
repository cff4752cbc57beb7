#include "common/hugging_face/open_model_file.h"

#include <errno.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/gguf/model_parts.h"
#include "common/hugging_face/config_translation.h"
#include "common/hugging_face/folder_weights.h"
#include "common/hugging_face/tensor_translation.h"
#include "common/hugging_face/tokenizer_keys.h"

namespace baton {
namespace {

constexpr JsonFileLimits kConfigLimits = {.bytes = size_t{4} << 20, .values = 1 << 17};

absl::StatusOr<GgufFile> OpenFolder(const std::string& folder, GgufFile::Part part) {
  ModelParts parts;
  parts.path = folder;
  const std::string config_path = absl::StrCat(folder, "/config.json");
  const absl::StatusOr<absl::Span<const uint8_t>> bytes = parts.files.Open(config_path, false);
  if (!bytes.ok()) {
    return absl::Status(bytes.status().code(),
                        absl::StrCat(bytes.status().message(),
                                     "; a folder is to be one as Hugging Face has them, with "
                                     "config.json, else give the path of a GGUF file"));
  }
  const absl::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  BATON_ASSIGN_OR_RETURN(const nlohmann::json json,
                         ParseJsonObject(text, config_path, kConfigLimits));
  const JsonFileFields config(json, config_path);
  BATON_ASSIGN_OR_RETURN(TranslatedConfig translated, TranslateConfig(config));
  BATON_RETURN_IF_ERROR(ReadTokenizerKeys(folder, config, parts.files, translated.keys.metadata));
  if (part == GgufFile::Part::kTokenizer) {
    BATON_RETURN_IF_ERROR(AddFolderWeights(folder, parts.files));
  } else {
    BATON_ASSIGN_OR_RETURN(const FolderTensors tensors,
                           OpenFolderWeights(folder, part == GgufFile::Part::kAll, parts.files));
    const TranslationOptions options = {.folder = folder,
                                        .tied = translated.tied,
                                        .multimodal = translated.multimodal,
                                        .scaled_e4m3 = translated.scaled_e4m3};
    BATON_ASSIGN_OR_RETURN(parts.tensors,
                           TranslateTensors(tensors, *translated.type, translated.keys, options));
  }
  parts.metadata = std::move(translated.keys.metadata);
  return GgufFile::Assemble(std::move(parts));
}

// The error of a path that leads nowhere. Other programs fetch models by names such as
// "organisation/model" or "model:tag".
absl::StatusOr<GgufFile> NotThere(const std::string& path, int error, GgufFile::Part part) {
  absl::StatusOr<GgufFile> opened = GgufFile::Open(path, part);
  if (opened.ok() || error != ENOENT || absl::EndsWith(path, ".gguf")) return opened;
  return absl::Status(opened.status().code(),
                      absl::StrCat(opened.status().message(),
                                   "; Baton fetches no models: download the file or the folder "
                                   "and give its path"));
}

}  // namespace

absl::StatusOr<GgufFile> OpenModelFile(const std::string& path, GgufFile::Part part) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return NotThere(path, errno, part);
  if (!S_ISDIR(facts.st_mode)) return GgufFile::Open(path, part);
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return OpenFolder(folder, part);
}

}  // namespace baton
