// The flags of prefill and decode workers. Each sets a field of the options struct of the part that
// it is for, whose default is the flag's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "common/backend/make_backend.h"
#include "common/engine/engine.h"
#include "common/flags/flags.h"
#include "common/kv/staging.h"
#include "common/net/server_flags.h"
#include "common/worker/model_runtime.h"

namespace baton {

// How a worker hands KV over.
struct HandoffOptions {
  int connections = 2;              // connections to each decode worker
  std::string wire_dtype = "auto";  // auto: the KV type; another quantised one if both ends ask
  bool strict_dtype = false;        // whether to refuse peers with another KV type
  // Share of the pushes of which a decode worker audits a block. With blocks of 32 tokens that is
  // 0.64 rows a push: at most 1 % of what it computes where answers have 64 tokens.
  double audit_share = 0.02;
  KvStaging::Options staging;  // on a GPU's worker only; copy_threads gives its helpers
  // Threads of a GPU's worker for the CRCs, conversions and copies of its pushes, the push's own
  // among them; 0: as CopyHelpers says.
  int copy_threads = 0;
};

struct WorkerFlags {
  ServerFlags server;
  std::vector<std::string> served_model_names;  // empty: DefaultModelName
  ModelRuntimeOptions runtime;
  HandoffOptions handoff;
};

// The most that --max-model-len takes.
inline constexpr int kMaxContextTokens = 1 << 24;
// The values of --kv-cache-dtype.
std::vector<std::pair<std::string, KvType>> KvCacheTypes();

// The most that --kv-copy-threads takes.
inline constexpr int kMaxCopyThreads = 64;
// Threads that help those of pushes (KvStaging::Options::helpers), of a process with `cpus` CPUs.
// If `copy_threads` is 0, one for every four CPUs, at most 4: most of the others are for gRPC's
// threads, which the kernel's copies keep as busy.
int CopyHelpers(int copy_threads, int cpus);

// Adds the flags that say how a model is computed: device, threads, cpu-set, cpu-isa,
// deterministic, block-size, kv-cache-dtype, max-num-batched-tokens.
void AddComputeFlags(FlagSet& flags, BackendOptions& backend, EngineOptions& engine);
// Adds all flags of a worker, those of AddComputeFlags too.
void AddWorkerFlags(FlagSet& flags, WorkerFlags& worker);

// Checks everything that can be checked before the model is opened. INVALID_ARGUMENT names the
// flag.
absl::Status ValidateWorkerFlags(const WorkerFlags& worker);

}  // namespace baton
