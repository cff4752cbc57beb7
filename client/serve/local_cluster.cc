#include "client/serve/local_cluster.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/serve/health_client.h"
#include "client/serve/metrics_page.h"
#include "client/serve/runtime_folder.h"
#include "common/backend/cpu/machine/cpu_set.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/health.h"

namespace baton {
namespace {

// Exit code of our programs for wrong flags, files and ports: starting again would not help.
constexpr int kExitConfiguration = 2;
constexpr int kDeathsBeforeBackOff = 3;
constexpr absl::Duration kBackOff = absl::Seconds(2);
constexpr absl::Duration kHealthTimeout = absl::Milliseconds(500);
constexpr absl::Duration kCheckTimeout = absl::Minutes(1);  // limit of one program's --check-config

constexpr char kFreePort[] = "127.0.0.1:0";

// Whether the address leaves the choice of its port to us.
bool HasNoPort(const std::string& address) { return absl::EndsWith(address, ":0"); }

std::string WorkerName(const LocalClusterOptions& options, int index) {
  return index < options.prefill_workers ? absl::StrCat("prefill-", index)
                                         : absl::StrCat("decode-", index - options.prefill_workers);
}

CoreDivisionOptions DivisionOf(const LocalClusterOptions& options) {
  return {.cpus = options.cpus.empty() ? UsableCpus() : options.cpus,
          .quota = options.cpus.empty() ? AvailableCpus() : 0,
          .prefill_workers = options.prefill_workers,
          .decode_workers = options.decode_workers,
          .threads = options.threads};
}

// Divides the CPUs that other clusters leave, and keeps the claims of this one in `claims`.
std::vector<WorkerCores> DivideFreeCores(const LocalClusterOptions& options, CpuClaims& claims) {
  CoreDivisionOptions wanted = DivisionOf(options);
  const int workers = options.prefill_workers + options.decode_workers;
  const bool as_asked = !options.cpus.empty();
  const int most = as_asked || options.threads == 0 ? static_cast<int>(wanted.cpus.size())
                                                    : workers * options.threads;
  CpuClaims taking(wanted.cpus, most);
  if (!as_asked) wanted.taken = taking.taken();
  std::vector<WorkerCores> division = DivideCores(wanted);
  const bool shared = division.front().cpus.empty();
  if (as_asked || !shared) claims = std::move(taking);
  if (shared && (workers > 1 || !wanted.taken.empty())) {
    const std::string others = wanted.taken.empty()
                                   ? ""
                                   : absl::StrCat(" (other servers of Baton have CPUs ",
                                                  absl::StrJoin(wanted.taken, ","), ")");
    LogWarning(
        "the workers share {} CPU(s), which makes each slower{}; give every thread one of its own",
        AvailableCpus(), others);
  }
  for (int w = 0; w < workers; ++w) {
    const WorkerCores& cores = division[static_cast<size_t>(w)];
    LogInfo("{}: {}", WorkerName(options, w), DescribeThreads(cores.threads, cores.cpus));
  }
  return division;
}

}  // namespace

absl::StatusOr<std::string> LocalCluster::KeepPort(absl::string_view flag,
                                                   const std::string& address) {
  BATON_ASSIGN_OR_RETURN(ReservedPort port, ReservedPort::Take(flag, address));
  if (!port.kept()) {
    LogWarning(
        "{} {}: connections of a former server still have the port, so another user can take it if "
        "its server starts again; restart baton serve in a few minutes to keep the port",
        std::string(flag), address);
  }
  std::string kept = port.address();
  ports_.push_back(std::move(port));
  return kept;
}

// Servers that start at the same time get different ports: each keeps the port that it finds.
absl::StatusOr<std::string> LocalCluster::KeepNextHttpPort() {
  constexpr int kFirst = 8080, kLast = 8179;
  for (int port = kFirst; port <= kLast; ++port) {
    auto kept = KeepPort("--http-listen", absl::StrCat("127.0.0.1:", port));
    if (kept.ok()) return kept;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("--http-listen: all ports from ", kFirst, " to ", kLast,
                   " are taken; give another HOST:PORT, or none to serve without HTTP"));
}

absl::Status LocalCluster::KeepGivenPorts(const LocalClusterOptions& options) {
  for (const auto& [flag, address] : {std::pair("--listen", &options.listen),
                                      std::pair("--health-listen", &options.health_listen),
                                      std::pair("--http-listen", &options.http_listen)}) {
    if (address->empty() || HasNoPort(*address) || *address == kAnyHttpPort) continue;
    BATON_RETURN_IF_ERROR(KeepPort(flag, *address).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<LocalCluster::Child> LocalCluster::MakeWorker(const LocalClusterOptions& options,
                                                             int index, const WorkerCores& cores) {
  const bool prefill = index < options.prefill_workers;
  const int workers = options.prefill_workers + options.decode_workers;
  Child child;
  child.name = WorkerName(options, index);
  BATON_ASSIGN_OR_RETURN(child.address, KeepPort("--listen", kFreePort));
  BATON_ASSIGN_OR_RETURN(child.health_address, KeepPort("--health-listen", kFreePort));
  child.argv = {
      absl::StrCat(options.binaries, prefill ? "/baton-prefill-worker" : "/baton-decode-worker"),
      absl::StrCat("--model=", options.model),
      absl::StrCat("--listen=", child.address),
      absl::StrCat("--health-listen=", child.health_address),
      "--reuse-port",
      absl::StrCat("--threads=", cores.threads),
      absl::StrCat("--gpu-memory-utilization=", options.gpu_memory_utilization / workers)};
  if (!cores.cpus.empty()) {
    child.argv.push_back(absl::StrCat("--cpu-set=", absl::StrJoin(cores.cpus, ",")));
  }
  child.argv.insert(child.argv.end(), options.worker_args.begin(), options.worker_args.end());
  return child;
}

absl::StatusOr<LocalCluster::Child> LocalCluster::MakeRouter(const LocalClusterOptions& options) {
  Child router;
  router.name = "router";
  router.address = options.listen;
  router.health_address = options.health_listen.empty() ? kFreePort : options.health_listen;
  http_address_ = options.http_listen;
  // A router that starts again keeps its ports.
  if (HasNoPort(router.address)) {
    BATON_ASSIGN_OR_RETURN(router.address, KeepPort("--listen", router.address));
  }
  if (HasNoPort(router.health_address)) {
    BATON_ASSIGN_OR_RETURN(router.health_address,
                           KeepPort("--health-listen", router.health_address));
  }
  if (HasNoPort(http_address_)) {
    BATON_ASSIGN_OR_RETURN(http_address_, KeepPort("--http-listen", http_address_));
  } else if (http_address_ == kAnyHttpPort) {
    BATON_ASSIGN_OR_RETURN(http_address_, KeepNextHttpPort());
  }
  router.argv = {absl::StrCat(options.binaries, "/baton-router"),
                 absl::StrCat("--model=", options.model), absl::StrCat("--listen=", router.address),
                 absl::StrCat("--health-listen=", router.health_address), "--reuse-port"};
  // Names of workers contain the host's name, which only callers on this machine receive.
  if (IsLoopback(router.address) && (http_address_.empty() || IsLoopback(http_address_))) {
    router.argv.push_back("--expose-workers");
  }
  if (!http_address_.empty()) {
    router.argv.push_back(absl::StrCat("--http-listen=", http_address_));
  }
  router.argv.insert(router.argv.end(), options.router_args.begin(), options.router_args.end());
  for (size_t w = 0; w < children_.size(); ++w) {
    const bool prefill = w < static_cast<size_t>(options.prefill_workers);
    router.argv.push_back(absl::StrCat(prefill ? "--prefill=" : "--decode=", children_[w].address));
  }
  return router;
}

absl::StatusOr<LocalCluster> LocalCluster::Prepare(const LocalClusterOptions& options,
                                                   const std::vector<WorkerCores>& division,
                                                   bool keep_given_ports) {
  LocalCluster cluster;
  if (keep_given_ports) BATON_RETURN_IF_ERROR(cluster.KeepGivenPorts(options));
  for (size_t w = 0; w < division.size(); ++w) {
    BATON_ASSIGN_OR_RETURN(Child worker,
                           cluster.MakeWorker(options, static_cast<int>(w), division[w]));
    cluster.children_.push_back(std::move(worker));
  }
  BATON_ASSIGN_OR_RETURN(Child router, cluster.MakeRouter(options));
  cluster.children_.push_back(std::move(router));
  if (options.metrics_listen.empty()) return cluster;
  for (Child& child : cluster.children_) {
    BATON_ASSIGN_OR_RETURN(child.metrics_address, cluster.KeepPort("--metrics-listen", kFreePort));
    child.argv.push_back(absl::StrCat("--metrics-listen=", child.metrics_address));
  }
  return cluster;
}

absl::StatusOr<bool> LocalCluster::Check(const LocalClusterOptions& options) {
  // It succeeds beside the servers that have the given ports.
  BATON_ASSIGN_OR_RETURN(LocalCluster cluster, Prepare(options, DivideCores(DivisionOf(options)),
                                                       /*keep_given_ports=*/false));
  for (Child& child : cluster.children_) {
    child.argv.push_back("--check-config");
    BATON_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(child.argv));
    const auto exit = process.Wait(kCheckTimeout);
    if (exit.has_value() && exit->signal == 0 && exit->code == kExitConfiguration) return false;
    if (!exit.has_value() || exit->signal != 0 || exit->code != 0) {
      return absl::InternalError(absl::StrCat(child.name, " did not end its --check-config well"));
    }
  }
  return true;
}

absl::StatusOr<LocalCluster> LocalCluster::Start(const LocalClusterOptions& options) {
  // The children inherit this, even if they share CPUs and pin no threads.
  if (!options.cpus.empty()) KeepThisThreadOn(options.cpus);
  if (const auto folder = RuntimeFolder(); !folder.ok()) {
    LogWarning("other servers of Baton do not see which CPUs and ports this one takes: {}",
               LogSafe(folder.status().message()));
  }
  CpuClaims claims;
  const std::vector<WorkerCores> division = DivideFreeCores(options, claims);
  BATON_ASSIGN_OR_RETURN(LocalCluster cluster,
                         Prepare(options, division, /*keep_given_ports=*/true));
  cluster.claims_ = std::move(claims);
  if (!options.metrics_listen.empty()) {
    BATON_RETURN_IF_ERROR(cluster.ServeMetrics(options.metrics_listen));
  }
  if (options.cuda_mps) {
    BATON_ASSIGN_OR_RETURN(cluster.mps_, MpsControl::Start());
  }
  for (Child& child : cluster.children_) {
    BATON_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(child.argv));
    child.process.push_back(std::move(process));
  }
  return cluster;
}

absl::Status LocalCluster::ServeMetrics(const std::string& listen) {
  std::vector<MetricsSource> sources;
  for (const Child& child : children_) sources.push_back({child.name, child.metrics_address});
  BATON_ASSIGN_OR_RETURN(metrics_, MetricsServer::Start(listen, [sources = std::move(sources)] {
                           return ScrapeParts(sources);
                         }));
  LogInfo("the metrics of all parts are at http://{}/metrics", metrics_->address());
  return absl::OkStatus();
}

LocalCluster::~LocalCluster() {
  if (!children_.empty()) Stop(absl::Seconds(2));
}

absl::Status LocalCluster::Poll() {
  const absl::Time now = SteadyNow();
  for (Child& child : children_) BATON_RETURN_IF_ERROR(PollChild(child, now));
  if (mps_ != nullptr && !mps_ended_ && !mps_->Runs()) {
    mps_ended_ = true;
    LogWarning(
        "nvidia-cuda-mps-control ended: a worker that starts again takes turns with the others on "
        "their GPU; restart baton serve at a quiet time to have the service again");
  }
  ReapOrphans(RunningProcesses());
  const Child& router = children_.back();
  const auto serves = [&router](const char* service) {
    return CheckHealth(router.health_address, service, kHealthTimeout).ok();
  };
  ready_ = !router.process.empty() && router.was_ready &&
           (ready_ || (serves("readiness") && serves(kAllWorkersHealth)));
  return absl::OkStatus();
}

std::vector<pid_t> LocalCluster::RunningProcesses() const {
  std::vector<pid_t> pids;
  for (const Child& child : children_) {
    for (const ChildProcess& process : child.process) pids.push_back(process.pid());
  }
  if (mps_ != nullptr) pids.push_back(mps_->pid());
  return pids;
}

absl::Status LocalCluster::PollChild(Child& child, absl::Time now) {
  if (!child.process.empty()) {
    const auto exit = child.process.front().Poll();
    if (!exit.has_value()) {
      // "startup" and not "readiness": a router's readiness waits for its workers.
      child.was_ready =
          child.was_ready || CheckHealth(child.health_address, "startup", kHealthTimeout).ok();
      child.ever_ready |= child.was_ready;
      return absl::OkStatus();
    }
    child.process.clear();
    if (exit->signal == 0 && exit->code == kExitConfiguration && !child.ever_ready) {
      return absl::FailedPreconditionError(
          absl::StrCat(child.name, " cannot run as it is configured; its error message is above"));
    }
    child.deaths_before_ready = child.was_ready ? 0 : child.deaths_before_ready + 1;
    child.was_ready = false;
    const bool back_off = child.deaths_before_ready >= kDeathsBeforeBackOff;
    child.restart_at = back_off ? now + kBackOff : now;
    LogWarning("{} ended ({}); starting it again{}", child.name, exit->Text(),
               back_off ? " in 2 s: it has died three times before it was ready" : "");
  }
  if (now < child.restart_at) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(child.argv));
  child.process.push_back(std::move(process));
  return absl::OkStatus();
}

bool LocalCluster::Stop(absl::Duration grace) {
  const absl::Time deadline = SteadyNow() + grace;
  bool polite = true;
  // The router ends first, so that running streams finish on workers that still live.
  for (auto child = children_.rbegin(); child != children_.rend(); ++child) {
    if (!child->process.empty()) child->process.front().Signal(SIGTERM);
    if (child == children_.rbegin() && !child->process.empty()) {
      polite = child->process.front().Wait(deadline - SteadyNow()).has_value() && polite;
    }
  }
  for (Child& child : children_) {
    if (child.process.empty()) continue;
    polite = child.process.front()
                 .Wait(std::max(deadline - SteadyNow(), absl::ZeroDuration()))
                 .has_value() &&
             polite;
  }
  children_.clear();  // kills what is left
  return polite;
}

}  // namespace baton
