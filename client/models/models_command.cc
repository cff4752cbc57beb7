#include "client/models/models_command.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "client/models/facts_text.h"
#include "client/models/model_finder.h"
#include "common/backend/make_backend.h"
#include "common/base/standard_output.h"
#include "common/worker/worker_flags.h"

namespace baton {

void ModelsCommand::AddFlags(FlagSet& flags) {
  flags.AddPositionals(
      "path", paths_,
      absl::StrCat("GGUF files (of a split model the first part), Hugging Face folders, or folders "
                   "that hold such, ",
                   kMaxFolderDepth, " levels deep and with at most ", kMaxFolderEntries, " files"));
  flags.AddString("device", device_, "what would serve them: cpu, cuda, cuda:N or auto");
  flags.AddNamed("quantize", options_.quantisation, "as `baton serve` would be told",
                 Quantisations());
  flags.AddNamed("kv-cache-dtype", options_.kv_dtype, "likewise", KvCacheTypes());
  flags.AddInt("max-model-len", options_.max_model_len, 0, kMaxContextTokens,
               "likewise: tokens of prompt and output; 0: the model's context");
  flags.AddBool("json", json_, "print one JSON object instead of the table");
}

int ModelsCommand::Run(const FlagSet&) {
  constexpr char kProgram[] = "baton models";
  if (paths_.empty()) {
    return ExitUsage(
        kProgram, absl::InvalidArgumentError(
                      "name a GGUF file, a Hugging Face folder, or a folder that contains models"));
  }
  // Nothing is computed, so one thread will do.
  const absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeBackend({.device = device_, .threads = 1});
  if (!backend.ok()) return ExitUsage(kProgram, backend.status());
  int code = 0;
  std::vector<ModelFacts> models;
  for (const std::string& path : paths_) {
    const absl::StatusOr<std::vector<std::string>> found = FindModels(path);
    if (!found.ok()) {
      code = ExitUsage(kProgram, found.status());
      continue;
    }
    for (const std::string& model : *found) {
      models.push_back(FindOutAbout(model, options_, **backend));
    }
  }
  if (json_) {
    WriteOutput(FactsJson(models));
  } else if (!models.empty()) {
    WriteOutput(FactsTable(models));
  }
  return code;
}

}  // namespace baton
