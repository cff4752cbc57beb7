// The router as a whole, without its process: flags, signals and listening are main's.
#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/certificates/credentials.h"
#include "common/net/metrics.h"
#include "router/access_log/access_log.h"
#include "router/calls/thread_loop.h"
#include "router/dispatch/admission.h"
#include "router/fleet/fleet.h"
#include "router/fleet/fleet_view.h"
#include "router/fleet/worker_registry.h"
#include "router/fleet/worker_targets.h"
#include "router/front/door.h"
#include "router/front/generation_service.h"
#include "router/front/grammar_pool.h"
#include "router/front/intake.h"
#include "router/front/preparing_pool.h"
#include "router/front/refusals.h"
#include "router/front/served_model.h"
#include "router/metrics/router_metrics.h"
#include "router/page/event_log.h"
#include "router/page/fleet_history.h"
#include "router/page/fleet_report.h"
#include "router/page/fleet_reporter.h"
#include "router/page/page_files.h"
#include "router/page/request_history.h"
#include "router/planner/advisor.h"
#include "router/planner/demand.h"
#include "router/planner/planner.h"
#include "router/runner/request_runner.h"
#include "router/tenants/fleet_secret.h"
#include "router/tenants/quotas.h"
#include "router/trace/tracer.h"
#include "router/web/allowed_hosts.h"
#include "router/web/page_service.h"
#include "router/web/web_service.h"

namespace baton {

struct RouterOptions {
  WorkerSources workers;
  std::vector<std::string> advertised_hosts{};  // as --advertised-host (CheckHostPattern)
  bool allow_mixed_revisions = false;           // as the flag
  absl::Duration poll_interval =
      absl::Seconds(2);  // between looks at DNS names and the workers file
  RequestRunner::Options runner;
  Admission::Limits admission;
  int tokenizer_threads = 2;
  GrammarPool::Options grammars{};
  FleetSecret fleet_secret = FleetSecret::Random();
  const ApiKeys* keys = nullptr;                 // null: no API key is known. Outlives the router
  std::function<bool()> short_of_memory{};       // while it is true, requests are refused
  std::vector<std::string> http_cors_origins{};  // as --http-cors-origin
  AllowedHosts http_hosts{};                     // allowed hosts of HTTP requests without a key
  // Workers are called in plain text, on loopback only; certificates are for clients alone.
  bool plain_workers = false;
  bool needs_identity = false;  // clients without API key and certificate are refused
  bool insecure = false;        // as --insecure
  std::string name = "router";  // on the page
  Planner::Options advice{};    // its prompts_on_decode_workers follows from `runner`
  Tracer* tracer = nullptr;     // null: nothing is traced. Outlives the router
  // Null: there is none. It outlives the router and what serves its HTTP.
  AccessLog* access_log = nullptr;
  absl::Span<const PageFile> page_files = PageFiles();  // must outlive the router
};

// Thread-safe. A server that serves service() is shut down before the router is destroyed.
class Router {
 public:
  // Borrows `model` and `metrics`.
  Router(const ServedModel& model, RouterOptions options, const Credentials& credentials,
         Metrics& metrics);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  grpc::Service& service() { return *service_; }
  // The handler for the HTTP server, which is closed before the router is destroyed, and destroyed
  // after it.
  HttpServer::Handler http_handler() { return web_->handler(); }

  // A request that came now would find its workers.
  bool Ready() const;
  // Whether every worker that it knows is ready.
  bool AllWorkersReady() const { return view_.Get().all_ready; }
  FleetSummary fleet() const { return view_.Get(); }
  uint32_t waiting_requests() const { return admission_.waiting_requests(); }

  void RefuseNew() { intake_->RefuseNew(); }
  size_t RunningRequests();
  // Refuses new requests, ends those that run with UNAVAILABLE, reason DRAINING.
  void EndAll();

 private:
  friend class RouterFixture;  // lets tests pretend that requests waited before

  RouterReport Report();
  void Tick(const WorkersByTarget& workers);

  const RouterOptions options_;
  FleetView view_;
  Admission admission_;
  RouterMetrics router_metrics_;
  const std::string model_;
  const absl::Time started_ = SteadyNow();
  EventLog events_;
  FleetHistory fleet_history_;
  RequestHistory history_{events_, fleet_history_};
  FleetBoard board_;
  std::unique_ptr<ThreadLoop> loop_;
  std::unique_ptr<Fleet> fleet_;
  Demand demand_;
  Advisor advisor_;
  std::unique_ptr<FleetReporter> reporter_;
  std::unique_ptr<WorkerRegistry> registry_;
  Quotas quotas_;
  Refusals refusals_;
  std::unique_ptr<RequestRunner> runner_;
  std::unique_ptr<GrammarPool> grammars_;
  std::unique_ptr<PreparingPool> pool_;
  Door door_;
  std::unique_ptr<Intake> intake_;
  std::unique_ptr<GenerationServiceImpl> service_;
  std::unique_ptr<PageService> page_;
  std::unique_ptr<WebService> web_;
  std::unique_ptr<TargetPoller> poller_;
};

}  // namespace baton
