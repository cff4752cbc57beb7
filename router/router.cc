#include "router/router.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"

#include "common/base/random.h"
#include "common/grammar/grammar_vocabulary.h"
#include "common/protocol/identity.h"
#include "common/rpc/status.h"
#include "router/calls/grpc_rpcs.h"
#include "router/request/errors.h"

namespace baton {
namespace {

// Registry and runner know each other through these; both live on the loop's thread.
WorkerRegistry::Options RegistryOptions(const ServedModel& model, const Credentials& credentials,
                                        RouterMetrics& metrics, const RouterOptions& options,
                                        std::unique_ptr<RequestRunner>& runner,
                                        std::function<void(const WorkersByTarget&)> tick) {
  return {
      .model = model.expected(),
      .allow_mixed_revisions = options.allow_mixed_revisions,
      .connect =
          [credentials](internal::v1::WorkerRole role, const std::string& address) {
            return ConnectOverGrpc(role, address, credentials);
          },
      .expose_workers = options.runner.expose_workers,
      .advertised_hosts = options.advertised_hosts,
      .on_change =
          [&runner] {
            if (runner != nullptr) runner->PlaceWaiting();
          },
      .on_lost = [&runner](uint64_t id, const absl::Status& why) { runner->WorkerLost(id, why); },
      .on_stood_still = [&runner](const Worker& worker,
                                  absl::Time since) { runner->WorkerStoodStill(worker, since); },
      .on_up = [&metrics](
                   const WorkerTarget& target,
                   bool up) { metrics.SetUp(target.address, WorkerRoleName(target.role), up); },
      .on_quarantine =
          [&metrics](const WorkerTarget& target, bool quarantined) {
            metrics.SetQuarantined(target.address, WorkerRoleName(target.role), quarantined);
          },
      .on_pages =
          [&metrics](const WorkerTarget& target, size_t pages) {
            metrics.SetPrefixPages(target.address, WorkerRoleName(target.role), pages);
          },
      .on_gone =
          [&metrics](const WorkerTarget& target) {
            metrics.WorkerLeft(target.address, WorkerRoleName(target.role));
          },
      .on_tick = std::move(tick)};
}

Planner::Options AdviceOptions(const RouterOptions& options) {
  Planner::Options advice = options.advice;
  advice.prompts_on_decode_workers =
      options.runner.dispatch.placement.disaggregation == Disaggregation::kNever;
  return advice;
}

// Requests that were turned away before their prompt was read because workers could not take more.
// Those that gave up while they waited are counted among `demand`.
uint64_t RefusedForLoad(const std::map<std::string, uint64_t>& refusals, const Demand& demand) {
  uint64_t refused = 0;
  for (const char* reason : {kReasonQueueFull, kReasonQueueTime}) {
    const auto found = refusals.find(reason);
    if (found != refusals.end()) refused += found->second;
  }
  return refused - std::min(refused, demand.counts().gave_up);
}

// Part of the KV blocks of all decode workers that is used or promised.
double DecodeKvUsage(const FleetReport& report) {
  double used = 0, total = 0;
  for (const WorkerReport& worker : report.workers) {
    if (worker.role != WorkerRoleName(internal::v1::WORKER_ROLE_DECODE)) continue;
    used += worker.blocks.used;
    total += worker.blocks.total;
  }
  return total == 0 ? 0 : used / total;
}

}  // namespace

Router::Router(const ServedModel& model, RouterOptions options, const Credentials& credentials,
               Metrics& metrics)
    : options_(std::move(options)),
      admission_(options_.admission),
      router_metrics_(metrics, admission_),
      model_(model.name()),
      loop_(std::make_unique<ThreadLoop>()),
      fleet_(std::make_unique<Fleet>(*loop_,
                                     [this](const WorkerTarget& target, bool open) {
                                       router_metrics_.SetCircuitOpen(
                                           target.address, WorkerRoleName(target.role), open);
                                     })),
      advisor_(demand_, AdviceOptions(options_),
               [this] { return RefusedForLoad(router_metrics_.refusals(), demand_); }),
      reporter_(std::make_unique<FleetReporter>(board_, events_, *fleet_,
                                                [this] { return router_metrics_.refusals(); })),
      registry_(std::make_unique<WorkerRegistry>(
          *loop_, *fleet_, view_,
          RegistryOptions(model, options_.plain_workers ? Credentials::Loopback() : credentials,
                          router_metrics_, options_, runner_,
                          [this](const WorkersByTarget& workers) { Tick(workers); }))),
      quotas_(metrics),
      refusals_(*loop_),
      runner_(std::make_unique<RequestRunner>(RequestRunner::Parts{.loop = *loop_,
                                                                   .fleet = *fleet_,
                                                                   .view = view_,
                                                                   .admission = admission_,
                                                                   .metrics = router_metrics_,
                                                                   .observer = router_metrics_,
                                                                   .place = Place,
                                                                   .random_bytes = RandomBytes,
                                                                   .demand = &demand_,
                                                                   .history = &history_,
                                                                   .tracer = options_.tracer},
                                              options_.runner)),
      grammars_(std::make_unique<GrammarPool>(options_.grammars,
                                              SerializeVocabulary(model.tokenizer()),
                                              model.tokenizer_digest(), metrics)),
      pool_(
          std::make_unique<PreparingPool>(options_.tokenizer_threads, options_.admission.requests)),
      door_(options_.keys,
            {.needs_identity = options_.needs_identity, .insecure = options_.insecure}, metrics) {
  const Intake::Parts parts{.loop = *loop_,
                            .model = model,
                            .fleet = view_,
                            .door = door_,
                            .quotas = quotas_,
                            .refusals = refusals_,
                            .secret = options_.fleet_secret,
                            .admission = admission_,
                            .pool = *pool_,
                            .grammars = *grammars_,
                            .runner = *runner_,
                            .metrics = router_metrics_,
                            .disaggregation = options_.runner.dispatch.placement.disaggregation,
                            .short_of_memory = options_.short_of_memory,
                            .tracer = options_.tracer,
                            .access_log = options_.access_log};
  intake_ = std::make_unique<Intake>(parts);
  service_ = std::make_unique<GenerationServiceImpl>(*intake_, parts);
  page_ = std::make_unique<PageService>(PageService::Parts{.files = options_.page_files,
                                                           .door = door_,
                                                           .board = board_,
                                                           .events = events_,
                                                           .history = history_,
                                                           .fleet_history = fleet_history_,
                                                           .router = [this] { return Report(); }});
  web_ =
      std::make_unique<WebService>(*intake_, parts, *page_,
                                   WebService::Options{.cors_origins = options_.http_cors_origins,
                                                       .hosts = options_.http_hosts,
                                                       .ready = [this] { return Ready(); },
                                                       .trust = credentials.trust()},
                                   metrics);
  metrics.AddGauge("baton_router_kv_cache_usage_ratio",
                   "Part of the KV blocks of all decode workers that is used or promised.", {},
                   [this] { return DecodeKvUsage(*board_.Get()); });
  metrics.AddGauge("baton_router_ready_identities",
                   "Different models that the ready workers serve; more than 1 while one model "
                   "replaces another.",
                   {}, [this] { return static_cast<double>(view_.Get().ready_identities); });
  loop_->Post([this] { registry_->Start(); });
  poller_ = std::make_unique<TargetPoller>(options_.workers, options_.poll_interval,
                                           [this](FoundTargets found) {
                                             loop_->Post([this, found = std::move(found)] {
                                               registry_->SetTargets(found.targets, found.names);
                                             });
                                           });
}

Router::~Router() {
  poller_.reset();
  intake_->RefuseNew();
  grammars_->Stop();
  pool_->Close();  // every admitted request is prepared, so that all of them can end
  grammars_.reset();
  absl::Notification requests_gone;
  loop_->Post([&] { runner_->Close(RouterDraining(), [&] { requests_gone.Notify(); }); });
  requests_gone.WaitForNotification();
  absl::Notification watches_gone;
  loop_->Post([&] { registry_->Close([&] { watches_gone.Notify(); }); });
  watches_gone.WaitForNotification();
  loop_.reset();
}

RouterReport Router::Report() {
  return {.name = options_.name,
          .model = model_,
          .draining = intake_->refusing(),
          .uptime = SteadyNow() - started_,
          .running = router_metrics_.running(),
          .waiting = admission_.waiting_requests(),
          .streams_behind = router_metrics_.behind(),
          .refused = router_metrics_.refusals()};
}

void Router::Tick(const WorkersByTarget& workers) {
  router_metrics_.Tick(loop_->Now());
  const Advice& advice = advisor_.Tick(workers, loop_->Now());
  const auto tell = [this](internal::v1::WorkerRole role, const RoleAdvice& told) {
    const char* name = WorkerRoleName(role);
    if (told.needed.has_value()) router_metrics_.SetNeeded(name, *told.needed);
    if (told.advised > 0) router_metrics_.SetAdvised(name, told.advised);
    if (told.balanced > 0) router_metrics_.SetBalanced(name, told.balanced);
  };
  tell(internal::v1::WORKER_ROLE_PREFILL, advice.prefill);
  tell(internal::v1::WORKER_ROLE_DECODE, advice.decode);
  reporter_->Tick(workers, advice);
  fleet_history_.Tick({.at = loop_->Now(),
                       .rates = board_.Get()->rates,
                       .running = router_metrics_.running(),
                       .waiting = admission_.waiting_requests()});
}

bool Router::Ready() const {
  return view_.Get().CanServe(options_.runner.dispatch.placement.disaggregation);
}

size_t Router::RunningRequests() {
  size_t running = 0;
  loop_->Run([&] { running = runner_->running(); });
  return running;
}

void Router::EndAll() {
  intake_->RefuseNew();
  pool_->Stop();
  grammars_->Stop();
  loop_->Post([this] { runner_->EndAll(RouterDraining()); });
}

}  // namespace baton
