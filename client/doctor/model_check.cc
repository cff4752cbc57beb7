#include "client/doctor/model_check.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "client/doctor/machine_files.h"
#include "common/backend/make_backend.h"
#include "common/base/free_memory.h"
#include "common/base/kv_type_name.h"

namespace baton {
namespace {

constexpr char kNarrower[] =
    "use a file with smaller weights, --quantize, or a machine or control group with more memory";

std::string Gibibytes(uint64_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (uint64_t{1} << 30));
}

// What the machine has available, or the control group leaves if that is less. Cached files do not
// count against the group here: the kernel drops them where memory is wanted.
uint64_t FreeForWorkers() {
  const MemoryUse group = ReadMemoryUse();
  if (group.limit_bytes == 0) return FreeMemoryBytes();
  uint64_t available = group.limit_bytes - std::min(group.group_bytes, group.limit_bytes);
  const std::string text = ReadMachineFile("/proc/meminfo");
  unsigned long long kibibytes = 0;
  const size_t at = text.find("MemAvailable:");
  if (at != std::string::npos &&
      std::sscanf(text.c_str() + at, "MemAvailable: %llu", &kibibytes) == 1)
    available = std::min<uint64_t>(available, uint64_t{kibibytes} * 1024);
  return available;
}

Finding MemoryFinding(const ModelNeeds& needs) {
  const ModelFacts& model = needs.model;
  Finding finding{.check = "model.memory", .subject = model.path};
  const uint64_t kv = model.kv.empty() ? 0 : model.kv.front().bytes;
  const uint64_t all = static_cast<uint64_t>(needs.workers) * (model.weight_bytes + kv);
  finding.found = absl::StrCat("a worker needs ", Gibibytes(model.weight_bytes),
                               " for weights and ", Gibibytes(kv), " of KV cache (",
                               model.kv.empty() ? "-" : KvTypeName(model.kv.front().type),
                               ") per sequence of ", model.max_model_len, " tokens; ");
  if (needs.workers == 0) {
    finding.found += "the model's workers already run";
    return finding;
  }
  if (needs.free_bytes == 0) {
    finding.verdict = Verdict::kSkipped;
    finding.found += "the amount of free memory is unknown";
    return finding;
  }
  absl::StrAppend(&finding.found, Gibibytes(needs.free_bytes), " are free");
  if (needs.address_space > 0 && needs.address_space < model.weight_bytes + kv) {
    finding.verdict = Verdict::kFailed;
    absl::StrAppend(&finding.found, ", and a process may use at most ",
                    Gibibytes(needs.address_space));
    finding.remedy = "raise the address space limit (ulimit -v, LimitAS=)";
  } else if (model.weight_bytes >= needs.free_bytes) {
    finding.verdict = Verdict::kFailed;
    finding.remedy = kNarrower;
  } else if (all > needs.free_bytes) {
    finding.verdict = Verdict::kWarning;
    absl::StrAppend(&finding.found, ", less than the ", Gibibytes(all), " that ", needs.workers,
                    needs.workers == 1 ? " worker needs" : " workers need",
                    " for one such sequence each");
    finding.remedy =
        absl::StrCat("lower --max-model-len, use a smaller --kv-cache-dtype, or ", kNarrower);
  }
  return finding;
}

}  // namespace

ModelNeeds GatherModelNeeds(const std::string& path, int workers) {
  ModelNeeds needs{.workers = workers};
  // Weights are measured as the CPU would hold them; nothing is computed, so one thread will do.
  absl::StatusOr<std::unique_ptr<Backend>> backend = MakeBackend({.device = "cpu", .threads = 1});
  if (!backend.ok()) {
    needs.model.path = path;
    needs.model.served = backend.status();
    return needs;
  }
  needs.device = (*backend)->Name();
  needs.model = FindOutAbout(path, {}, **backend);
  needs.free_bytes = FreeForWorkers();
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    needs.address_space = limit.rlim_cur;
  }
  return needs;
}

Findings ModelFindings(const ModelNeeds& needs) {
  const ModelFacts& model = needs.model;
  if (!model.served.ok()) {
    return {{.check = "model.served",
             .subject = model.path,
             .verdict = Verdict::kFailed,
             .found = std::string(model.served.message()),
             .remedy = "use a complete GGUF file or Hugging Face folder that `baton models` lists "
                       "as served"}};
  }
  const std::string types =
      absl::StrJoin(model.weight_types, "+", [](std::string* out, const WeightTypeBytes& of_type) {
        absl::StrAppend(out, GgmlTypeName(of_type.type));
      });
  Findings findings = {
      {.check = "model.served",
       .subject = model.path,
       .found = absl::StrCat(model.architecture, " in ", types, ", context of ",
                             model.context_length, " tokens, for ", needs.device)},
      MemoryFinding(needs),
      {.check = "model.tokenizer", .subject = model.path, .found = model.tokenizer}};
  Finding& chat = findings.emplace_back(Finding{.check = "model.chat_template",
                                                .subject = model.path,
                                                .found = "the chat template compiles"});
  if (!model.chat_template) {
    chat.verdict = Verdict::kWarning;
    chat.found = "the model has no chat template, so chats are refused";
    chat.remedy = "send plain prompts, or use the model's instruction-tuned version";
  }
  return findings;
}

}  // namespace baton
