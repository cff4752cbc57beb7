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
#include "common/flags/flag_group.h"
#include "common/flags/shared_helps.h"
#include "common/worker/worker_flags.h"

namespace baton {

void ModelsCommand::AddFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kGeneral);
  flags.AddPositionals(
      "PATH", paths_,
      absl::StrCat("GGUF files, Hugging Face folders, or folders to search for them (",
                   kMaxFolderDepth, " levels deep, at most ", kMaxFolderEntries,
                   " files). A split model is named by its first file"));
  flags.AddString("device=auto|cpu|cuda|cuda:N", device_, "Device on which the models would run");
  flags.AddNamed("quantize", options_.quantisation,
                 "Type to which floating-point weights would be quantised, as in `baton serve`",
                 Quantisations());
  flags.AddNamed("kv-cache-dtype", options_.kv_dtype, "Type of the KV cache, as in `baton serve`",
                 KvCacheTypes());
  flags.AddInt("max-model-len", options_.max_model_len, 0, kMaxContextTokens,
               "Maximum number of tokens of prompt plus output, as in `baton serve`; 0: the "
               "model's context length");
  flags.AddBool("json", json_, kJsonHelp);
  flags.AddExample("baton models ~/models", "List all models below a folder");
  flags.AddExample("baton models model.gguf --max-model-len 8192",
                   "Show the memory that one sequence of 8192 tokens needs");
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
