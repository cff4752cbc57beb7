#include "common/worker/worker_process.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/backend/cpu/machine/cpu_set.h"
#include "common/base/clock.h"
#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/base/log_banner.h"
#include "common/base/numerics.h"
#include "common/base/progress_line.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/flags/flags.h"
#include "common/gguf/model_name.h"
#include "common/handoff/kv_wire_choice.h"
#include "common/net/bulk_tuning.h"
#include "common/protocol/identity.h"
#include "common/rpc/limits.h"
#include "common/worker/banner.h"
#include "common/worker/convert.h"
#include "common/worker/kv_memory.h"

namespace baton {
namespace {

// How long the last calls may take. Blocks come back after the step in flight; slices come back
// when a silent peer is given up, within 3 s.
constexpr absl::Duration kLastCallTimeout = absl::Seconds(4);

// Chooses the flags and examples of --help.
void ShowWorkerHelp(FlagSet& flags, const std::string& program, bool prefills) {
  flags.ShowFirst({"model", "listen", prefills ? "metrics-listen" : "advertise", "device",
                   "threads", "max-model-len", "kv-cache-memory-bytes", "tls-cert", "tls-key",
                   "tls-ca"});
  flags.AddExample(absl::StrCat(program, " --model model.gguf --listen 127.0.0.1:",
                                prefills ? "50052" : "50053"),
                   "Work for a router on the same machine");
  flags.AddExample(absl::StrCat(program, " -m model.gguf --device cuda --kv-cache-dtype fp8"),
                   "Compute on a GPU, with a KV cache of half the usual size");
}

}  // namespace

std::unique_ptr<WorkerProcess> WorkerProcess::Start(const std::string& program,
                                                    internal::v1::WorkerRole role, int argc,
                                                    char** argv) {
  IgnoreSigpipe();
  TuneProcessForBulk();
  WorkerFlags flags;
  const bool prefills = role == internal::v1::WORKER_ROLE_PREFILL;
  FlagSet flag_set(program, prefills ? "Prefill prompts and send their KV caches to decode workers"
                                     : "Generate tokens from prompts and from received KV caches");
  AddWorkerFlags(flag_set, flags);
  ShowWorkerHelp(flag_set, program, prefills);
  flag_set.ParseOrExit(argc, argv);
  if (absl::Status status = ValidateWorkerFlags(flags); !status.ok()) {
    std::exit(ExitUsage(program, status));
  }
  if (flags.server.check_config) {
    const absl::Status status = CheckModel(flags.runtime);
    std::exit(status.ok() ? 0 : ExitUsage(program, status));
  }
  auto process = std::unique_ptr<WorkerProcess>(new WorkerProcess(program));
  if (absl::Status status = process->Prepare(role, std::move(flags)); !status.ok()) {
    process.reset();
    std::exit(ExitUsage(program, status));
  }
  return process;
}

WorkerProcess::~WorkerProcess() = default;

absl::Status WorkerProcess::Prepare(internal::v1::WorkerRole role, WorkerFlags flags) {
  flags_ = std::move(flags);
  BATON_RETURN_IF_ERROR(
      InitLogging(WorkerRoleName(role), flags_.server.log_level, flags_.server.log_format));
  metrics_.emplace(WorkerRoleName(role));
  const auto progress = [this]() -> ProgressSample {
    const Engine* engine = started_engine_.load();
    if (engine == nullptr) return {};
    const EngineStats stats = engine->Stats();
    return {stats.progress, static_cast<uint64_t>(stats.runnable_sequences)};
  };
  BATON_ASSIGN_OR_RETURN(
      server_,
      ServerProcess::Create({.program = program_,
                             .flags = flags_.server,
                             .health = {.progress = progress,
                                        .services = {role == internal::v1::WORKER_ROLE_PREFILL
                                                         ? "baton.internal.v1.PrefillService"
                                                         : "baton.internal.v1.DecodeService",
                                                     "baton.internal.v1.WorkerService"}},
                             .internal = true},
                            *metrics_));
  const absl::Time start = SteadyNow();
  {
    ProgressLine line("loading the model");
    ModelRuntimeOptions options = flags_.runtime;
    if (role == internal::v1::WORKER_ROLE_PREFILL) options.draft_model.clear();
    options.progress = [&line](double done) { line.Tick(done); };
    BATON_ASSIGN_OR_RETURN(runtime_, LoadModelRuntime(options));
  }
  if (role == internal::v1::WORKER_ROLE_DECODE) {
    engine().RecordSteps();
    runtime_->times.Took("recordings");
  }
  if (auto grammars = GrammarReader::Create(*runtime_->tokenizer, {}); grammars.ok()) {
    grammars_ = *std::move(grammars);
    AddGrammarMetrics(*metrics_, *grammars_);
  } else {
    LogWarning("requests with a grammar are refused: {}", LogSafe(grammars.status().message()));
  }
  runtime_->times.Took("grammars");
  if (const absl::StatusOr<KvType> wire = KvTypeFromName(flags_.handoff.wire_dtype); wire.ok()) {
    BATON_RETURN_IF_ERROR(
        CheckHeadDim("--kv-wire-dtype", *wire, engine().cache().layout().head_dim));
  }
  if (!engine().cache().host_memory()) {
    BATON_ASSIGN_OR_RETURN(
        staging_,
        KvStaging::Create(engine().cache(),
                          {.bytes = flags_.handoff.staging.bytes,
                           .chunk_tokens = engine().options().max_num_batched_tokens,
                           .helpers = CopyHelpers(flags_.handoff.copy_threads, AvailableCpus())}));
    runtime_->times.Took("staging memory");
  }
  runtime_->times.Log();
  const std::vector<std::string>& names = flags_.served_model_names;
  const std::string model_name =
      names.empty() ? DefaultModelName(flags_.runtime.model) : names.front();
  metrics_->SetModelName(model_name);
  const double load_seconds = absl::ToDoubleSeconds(SteadyNow() - start);
  metrics_->AddGauge("baton_model_load_seconds", "Time from start until the model was loaded.", {},
                     [load_seconds] { return load_seconds; });
  worker_metrics_.emplace(
      *metrics_, [this] { return engine().Stats(); },
      role == internal::v1::WORKER_ROLE_PREFILL ? WorkerMetrics::Direction::kSent
                                                : WorkerMetrics::Direction::kReceived);
  AddKvMemoryMetrics(*metrics_, engine().cache().layout(), engine().cache().block_count());
  AddConfigMetric(*metrics_, engine().options(), engine().cache().layout(),
                  engine().cache().block_count());
  if (engine().draft_cache() != nullptr) {
    AddDraftMetrics(*metrics_, Draft(), [this] { return engine().Stats(); });
  }
  Describe(role);
  engine_thread_.emplace(engine());
  started_engine_ = &engine();
  return absl::OkStatus();
}

void WorkerProcess::Describe(internal::v1::WorkerRole role) {
  const EngineOptions& options = engine().options();
  identity_ =
      MakeIdentity(runtime_->weights_digest, runtime_->tokenizer_digest, engine().model_config());
  identity_.set_metadata_digest(runtime_->metadata_digest);
  identity_.set_sample_digest(runtime_->sample_digest);
  const KvLayout& layout = engine().cache().layout();
  shape_ = ShapeFromLayout(layout,
                           Numerics::OfCache(runtime_->backend->Numerics(), layout.dtype).name());
  SetWireTypes(flags_.handoff.wire_dtype, flags_.handoff.strict_dtype, shape_);
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  name_ = absl::StrCat(WorkerRoleName(role), "@", host, ":", getpid());
  internal::v1::WorkerInfo info = MakeWorkerInfo(role, name_, identity_, shape_);
  info.set_total_blocks(static_cast<uint32_t>(engine().Stats().total_blocks));
  info.set_max_model_len(static_cast<uint32_t>(options.max_model_len));
  info.set_version(Version());
  info.set_weights_type(runtime_->weights_type);
  watch_ = std::make_unique<WorkerService>(
      std::move(info),
      [this] {
        internal::v1::WatchResponse message =
            WatchFromStats(server_->health().state(), engine().Stats());
        if (add_to_watch_) add_to_watch_(message);
        return message;
      },
      server_->credentials(), &engine().prefix_pages());
}

void WorkerProcess::AddToWatch(std::function<void(internal::v1::WatchResponse&)> add) {
  add_to_watch_ = std::move(add);
}

int WorkerProcess::Run(std::vector<grpc::Service*> services, const DrainHooks& hooks) {
  services.push_back(watch_.get());
  if (absl::Status status = server_->Serve(services); !status.ok()) {
    server_.reset();
    return ExitUsage(program_, status);
  }
  watch_->SetAddress(server_->advertised_address());
  LogBanner(BannerText());
  server_->health().SetState(ServerState::kReady);
  watch_->StateChanged();
  DrainHooks all = hooks;
  all.begin = [&] {
    hooks.begin();
    watch_->StateChanged();
  };
  all.end_rest = [&] {
    hooks.end_rest();
    watch_->Close();
  };
  const int code = server_->Run(all);
  hooks.end_rest();
  watch_->Close();
  server_.reset();
  for (const absl::Time end = SteadyNow() + kLastCallTimeout; !hooks.drained();) {
    // Slices may still point into the cache, which must not be destroyed before them.
    if (SteadyNow() > end) std::_Exit(code);
    absl::SleepFor(absl::Milliseconds(5));
  }
  return code;
}

DraftMemory WorkerProcess::Draft() const {
  const KvCache& cache = *runtime_->engine->draft_cache();
  return {.weight_bytes = runtime_->draft_weight_bytes,
          .cache_bytes = cache.layout().block_bytes() * static_cast<uint64_t>(cache.block_count())};
}

std::string WorkerProcess::BannerText() const {
  Engine& engine = *runtime_->engine;
  return Banner({.version = Version(),
                 .role = name_.substr(0, name_.find('@')),
                 .model = runtime_->name,
                 .weights = runtime_->weights_type,
                 .kv_dtype = shape_.dtype(),
                 .kv_memory = KvMemoryText(engine.cache().layout(), engine.cache().block_count()),
                 .draft = engine.draft_cache() == nullptr ? "" : DraftMemoryText(Draft()),
                 .device = runtime_->backend->Description(),
                 .kv_blocks = engine.Stats().total_blocks,
                 .block_size = engine.options().block_size,
                 .max_model_len = engine.options().max_model_len,
                 .address = server_->advertised_address()});
}

}  // namespace baton
