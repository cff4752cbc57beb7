// The process of a worker, with all that prefill and decode workers share: flags, model, health,
// metrics, Watch, and its end.
//
//   // Exits on bad flags.
//   auto process = WorkerProcess::Start("baton-prefill-worker", role, argc, argv);
//   PrefillService service(process->engine(), ...);
//   return process->Run({&service}, hooks);
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "baton/internal/v1/worker.pb.h"
#include "common/engine/engine_thread.h"
#include "common/kv/staging.h"
#include "common/net/metrics.h"
#include "common/net/server.h"
#include "common/worker/grammar_reader.h"
#include "common/worker/model_runtime.h"
#include "common/worker/worker_flags.h"
#include "common/worker/worker_metrics.h"
#include "common/worker/worker_service.h"

namespace baton {

// Thread rule: the main thread only. A process has one of them.
class WorkerProcess {
 public:
  // Parses the flags, answers health probes, and loads the model. Exits the process with 0 for
  // --help, --version and --check-config, and with kExitUsage and one line on stderr after an
  // error.
  static std::unique_ptr<WorkerProcess> Start(const std::string& program,
                                              internal::v1::WorkerRole role, int argc, char** argv);
  ~WorkerProcess();

  Engine& engine() { return *runtime_->engine; }
  // The staging memory of a KV cache in a device's memory; null for one in host memory.
  KvStaging* staging() { return staging_.get(); }
  const std::string& name() const { return name_; }
  const internal::v1::ModelIdentity& identity() const { return identity_; }
  const internal::v1::KvShape& shape() const { return shape_; }
  const WorkerFlags& flags() const { return flags_; }
  const Credentials& credentials() const { return server_->credentials(); }
  WorkerMetrics& metrics() { return *worker_metrics_; }
  // Null where grammars cannot be made for the model's vocabulary.
  const GrammarReader* grammars() const { return grammars_.get(); }
  // What `add` adds goes into every Watch message. To be called before Run. `add` is called on
  // another thread until this process is destroyed.
  void AddToWatch(std::function<void(internal::v1::WatchResponse&)> add);
  // Watch messages go out at once. May be called from any thread.
  void StateChanged() { watch_->StateChanged(); }

  // Serves `services` and Watch until the process is asked to end, and returns the exit code. Calls
  // the hooks as ServerProcess::Run does, and end_rest a second time when the server has drained.
  // Nothing calls the services any more when it returns. Exits the process if the last calls do not
  // end within 4 s. REQUIRES: all hooks are set.
  int Run(std::vector<grpc::Service*> services, const DrainHooks& hooks);

 private:
  explicit WorkerProcess(std::string program) : program_(std::move(program)) {}
  absl::Status Prepare(internal::v1::WorkerRole role, WorkerFlags flags);
  void Describe(internal::v1::WorkerRole role);
  // REQUIRES: the engine has a draft model.
  DraftMemory Draft() const;
  std::string BannerText() const;

  const std::string program_;
  WorkerFlags flags_;
  std::string name_;
  internal::v1::ModelIdentity identity_;
  internal::v1::KvShape shape_;
  std::atomic<Engine*> started_engine_ = nullptr;
  std::unique_ptr<ModelRuntime> runtime_;
  std::unique_ptr<GrammarReader> grammars_;
  std::unique_ptr<KvStaging> staging_;
  std::optional<EngineThread> engine_thread_;
  std::optional<Metrics> metrics_;
  std::optional<WorkerMetrics> worker_metrics_;
  std::function<void(internal::v1::WatchResponse&)> add_to_watch_;  // set before the first message
  std::unique_ptr<WorkerService> watch_;
  std::unique_ptr<ServerProcess> server_;  // the last member, so that it is destroyed first
};

}  // namespace baton
