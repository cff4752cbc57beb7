#include "router/fleet/worker_registry.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/address.h"
#include "common/base/log.h"
#include "common/protocol/identity.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "router/fleet/fleet_summary.h"
#include "router/fleet/fleet_weights.h"
#include "router/fleet/push_address.h"
#include "router/fleet/quarantines.h"
#include "router/fleet/spare_addresses.h"
#include "router/fleet/unreachable_reason.h"
#include "router/fleet/worker_info_check.h"
#include "router/fleet/worker_names.h"

namespace baton {
namespace {

using internal::v1::WatchResponse;
using internal::v1::WORKER_ROLE_DECODE;

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kLongestBackoff = absl::Seconds(1);
// After this time a Watch stream that has not been answered counts as one that waits for DNS.
constexpr absl::Duration kSlowWatch = absl::Seconds(1);
// After a worker has flooded its stream. Its budget has room for a new one by then.
constexpr absl::Duration kFloodBackoff = absl::Seconds(10);

constexpr char kSameModelRemedy[] =
    "; give both the same model, or give the router --allow-mixed-revisions while one model "
    "replaces another";

absl::Status WorkerLost(const std::string& what) {
  return WithErrorInfo(absl::UnavailableError(what),
                       {.reason = kReasonWorkerLost, .stage = "", .worker = "", .metadata = {}});
}

}  // namespace

WorkerRegistry::WorkerRegistry(EventLoop& loop, Fleet& fleet, FleetView& view, Options options)
    : loop_(loop), fleet_(fleet), view_(view), options_(std::move(options)) {}

void WorkerRegistry::SetTargets(const std::vector<WorkerTarget>& targets,
                                const TargetNames& names) {
  if (closed_) return;
  for (auto& [target, worker] : workers_) {
    TakeName(*worker, std::binary_search(targets.begin(), targets.end(), target), names);
    if (worker->moved && worker->wanted) HurryWatch(*worker);
    if (!worker->wanted && worker->seen.own_sequences == 0 && worker->watch != nullptr) {
      worker->watch->Cancel();
    }
    fleet_.ReadinessChanged(*worker);
  }
  for (const WorkerTarget& target : targets) {
    if (workers_.count(target) != 0) continue;
    auto worker = std::make_unique<Worker>();
    worker->target = target;
    fleet_.pages().Add(*worker);
    worker->backoff = kFirstBackoff;
    TakeName(*worker, /*listed=*/true, names);
    worker->moved = false;
    OpenWatch(*workers_.emplace(target, std::move(worker)).first->second);
  }
  DropUnwanted();
  Publish();
}

// Every 250 ms: gives up workers that were silent for too long, and calls workers again that are
// due.
void WorkerRegistry::Tick() {
  const absl::Time now = loop_.Now();
  for (auto& [target, worker] : workers_) {
    if (!worker->spare_of.empty() && IsNeeded(workers_, *worker)) {
      worker->spare_of.clear();
      // The next stream begins with an introduction.
      if (worker->watch != nullptr) worker->watch->Cancel();
    }
    // tests/planted_bugs: worker_is_silent
    if (worker->id != 0 && now - worker->last_heard > kProgressTimeout) {
      Lose(*worker,
           WorkerLost(absl::StrCat("no message for ", absl::FormatDuration(kProgressTimeout))));
      // A stream that is open but silent is called anew, so that the worker introduces itself
      // again.
      if (worker->watch != nullptr) worker->watch->Cancel();
    }
    if (worker->name.vanished && worker->wanted && !AnswersWithoutName(*worker)) {
      worker->wanted = false;
      fleet_.ReadinessChanged(*worker);
    }
    if (worker->watch == nullptr && worker->wanted && !closed_ && now >= worker->retry_at) {
      OpenWatch(*worker);
    }
    LogReach(*worker);
  }
  DropUnwanted();
  JudgeWeights();
  Publish();
  options_.on_change();
  if (options_.on_tick) options_.on_tick(workers_);
  if (closed_ && workers_.empty()) {
    closed_();
    return;
  }
  tick_ = loop_.RunAt(now + (closed_ ? absl::Milliseconds(5) : kWatchInterval), [this] { Tick(); });
}

void WorkerRegistry::OpenWatch(Worker& worker) {
  worker.flooding = false;
  const bool moved = std::exchange(worker.moved, false);
  if (worker.rpcs == nullptr || moved) {
    // gRPC looks names up itself, but waits up to two minutes if the name did not exist for a while.
    // New channels look it up at once; calls that run keep theirs.
    auto rpcs = options_.connect(worker.target.role, worker.target.address);
    if (!rpcs.ok()) {
      worker.reach.Ended(ExplainNotAllowed(rpcs.status()), loop_.Now());
      return RetryLater(worker);
    }
    worker.rpcs = *std::move(rpcs);
  }
  worker.reach.Opened(loop_.Now());
  worker.watch = std::make_unique<StreamingCall<WatchResponse>>(
      loop_, CallHandlers<WatchResponse>{
                 .on_message = [this, &worker](WatchResponse& message) { Heard(worker, message); },
                 .on_end = [this, &worker](const absl::Status& s) { WatchEnded(worker, s); }});
  worker.watch->Begin(worker.rpcs->Watch(*worker.watch));
}

void WorkerRegistry::RetryLater(Worker& worker) {
  worker.retry_at = loop_.Now() + (worker.flooding ? kFloodBackoff : worker.backoff);
  worker.backoff = std::min(2 * worker.backoff, kLongestBackoff);
}

void WorkerRegistry::LogReach(Worker& worker) const {
  if (closed_ || !worker.wanted) return;
  const absl::Time now = loop_.Now();
  const std::optional<std::string> line = worker.reach.TakeLine(now);
  if (!line.has_value() || !MayLog(worker, now)) return;
  const std::string& name = worker.info.name();
  LogWarning("{} worker {}{} {}", WorkerRoleName(worker.target.role),
             name.empty() ? "" : absl::StrCat("'", LogSafe(name), "' at "), worker.target.address,
             *line);
}

// Calls a worker that does not answer anew, since its name leads elsewhere.
void WorkerRegistry::HurryWatch(Worker& worker) {
  if (worker.flooding) return;
  if (worker.watch == nullptr) {
    worker.backoff = kFirstBackoff;
    worker.retry_at = loop_.Now();
  } else if (worker.id == 0 && loop_.Now() - worker.reach.opened() > kSlowWatch) {
    worker.watch->Cancel();
  }
}

void WorkerRegistry::Heard(Worker& worker, const WatchResponse& message) {
  if (worker.flooding || !worker.budget.Take(loop_.Now())) return EndFlood(worker);
  worker.reach.Heard();
  worker.last_heard = loop_.Now();
  worker.backoff = kFirstBackoff;
  const bool was_ready = worker.ready();
  if (message.has_info()) TakeInfo(worker, message.info());
  if (worker.id == 0) return;  // given up, and it has not introduced itself again
  worker.state = message.state();
  worker.load = message.load();
  worker.runnable_sequences = message.runnable_sequences();
  TakeLoad(message.load(), worker.seen);
  if (message.has_prefix()) TakePages(worker, message.prefix());
  if (TakeQuarantines(worker, message)) JudgeQuarantines();
  JudgeProgress(worker, message);
  fleet_.ReadinessChanged(worker);
  fleet_.LoadChanged(worker);
  if (worker.ready() != was_ready) {
    if (MayLog(worker, loop_.Now())) {
      LogInfo("{} worker '{}' at {} is {}; without --expose-workers clients know it as {}",
              WorkerRoleName(worker.target.role), LogSafe(worker.info.name()),
              worker.target.address, worker.ready() ? "ready" : "not ready",
              worker.told_name(false));
    }
    Publish();
  }
  options_.on_change();
}

// A worker whose messages are ignored is given up like a silent one.
void WorkerRegistry::EndFlood(Worker& worker) {
  if (std::exchange(worker.flooding, true)) return;
  if (MayLog(worker, loop_.Now())) {
    LogWarning(
        "{} worker '{}' at {} sends far more Watch messages than a worker does; asking it again in "
        "{}",
        WorkerRoleName(worker.target.role), LogSafe(worker.info.name()), worker.target.address,
        absl::FormatDuration(kFloodBackoff));
  }
  if (worker.watch != nullptr) worker.watch->Cancel();
}

// Its RPC threads may answer while its engine hangs: what it was given is moved elsewhere, and it
// gets nothing until it advances.
void WorkerRegistry::JudgeProgress(Worker& worker, const WatchResponse& message) {
  const bool was_stuck = worker.stuck();
  worker.progress.Observe({message.progress(), message.runnable_sequences()}, worker.last_heard);
  // tests/planted_bugs: registry_hang_not_noticed
  if (was_stuck || !worker.stuck()) return;
  if (options_.on_stood_still) {
    options_.on_stood_still(worker, worker.last_heard - worker.progress.stuck());
  }
  Lose(worker,
       WorkerLost(absl::StrCat("no progress for ", absl::FormatDuration(kProgressTimeout))));
  fleet_.AddUnderNewId(worker);
}

void WorkerRegistry::TakeInfo(Worker& worker, const internal::v1::WorkerInfo& info) {
  worker.peer_id = worker.watch->PeerId();
  // tests/planted_bugs: registry_restart_not_noticed
  if (worker.id != 0 && worker.info.incarnation() == info.incarnation()) return;
  if (worker.id != 0) Lose(worker, WorkerLost("the worker was restarted"));
  if (TakeSpare(workers_, worker, info, loop_.Now())) return;
  if (worker.info.incarnation() != info.incarnation()) {
    ForgetPages(worker);
    worker.breaker = {};
    worker.traffic = {};
    worker.measured_tokens_per_second = 0;
  }
  worker.problem = WhyNeverUsed(worker.target, info, options_.model.tokenizer_digest);
  std::string why = LogSafe(worker.problem);
  if (worker.problem.empty() && !options_.allow_mixed_revisions) {
    worker.problem = WhyAnotherModel(options_.model, info.identity(), info.weights_type());
    why = worker.problem + kSameModelRemedy;
  }
  if (worker.problem.empty()) why = std::string(TakePushAddress(worker, info).message());
  worker.info = info;
  if (!worker.problem.empty()) CutTexts(worker.info);
  worker.other_weights = false;
  worker.info.DiscardUnknownFields();
  worker.progress = {};
  worker.seen = DescribeWorker(worker.info);
  const internal::v1::ModelIdentity& identity = worker.info.identity();
  worker.prefix_root = PrefixRoot(PrefixIdentity(
      identity.weights_digest(), identity.config_digest(), worker.info.shape().numerics()));
  worker.reach.Refused(worker.problem.empty() ? "" : why, loop_.Now());
  if (worker.problem.empty()) {
    JudgeWeights();
    NameUnlikeWorkers(worker);
    NameWhatCannotReach(worker);
  } else if (MayLog(worker, loop_.Now())) {
    LogError("{} worker '{}' at {} is not used: it {}", WorkerRoleName(worker.target.role),
             LogSafe(info.name()), worker.target.address, why);
  }
  fleet_.AddUnderNewId(worker);
  JudgeQuarantines();
}

absl::Status WorkerRegistry::TakePushAddress(Worker& worker,
                                             const internal::v1::WorkerInfo& info) const {
  const WorkerAddresses addresses{.target = worker.target.address,
                                  .connected = worker.watch->PeerAddress(),
                                  .name = worker.name.alone ? worker.name.source : "",
                                  .advertised = info.address()};
  worker.runs_here = RunsHere(addresses);
  if (worker.target.role != WORKER_ROLE_DECODE) return absl::OkStatus();
  const absl::StatusOr<std::string> address = FindPushAddress(addresses, options_.advertised_hosts);
  worker.push_address = address.value_or("");
  worker.takes_pushes_here_only = IsLoopback(worker.push_address);
  // Clients may read the problem, so it names no hosts.
  if (absl::IsFailedPrecondition(address.status())) {
    worker.problem = "advertises no address that prefill workers could dial";
  } else if (!address.ok()) {
    worker.problem = "advertises a host that is not its own";
  }
  return address.status();
}

void WorkerRegistry::JudgeWeights() {
  if (options_.allow_mixed_revisions) return;
  weights_ = ChooseWeights(workers_, options_.model, weights_);
  MarkOtherWeights(workers_, weights_, loop_.Now(),
                   [this](Worker& worker) { fleet_.ReadinessChanged(worker); });
}

// A prefill worker on another machine would look for the decode worker on its own.
void WorkerRegistry::NameWhatCannotReach(Worker& worker) const {
  if (!worker.problem.empty()) return;
  const bool decodes = worker.target.role == WORKER_ROLE_DECODE;
  for (const auto& [target, other] : workers_) {
    if (target.role == worker.target.role || other->id == 0 || !other->problem.empty()) continue;
    const Worker& prefill = decodes ? *other : worker;
    const Worker& decode = decodes ? worker : *other;
    if (Reaches(prefill, decode) || !MayLog(worker, loop_.Now())) continue;
    LogError(
        "prefill worker '{}' at {} cannot hand off to decode worker '{}' at {}: it is on another "
        "machine, and pushes would go to {}; give the decode worker an --advertise of a host that "
        "other machines reach",
        LogSafe(prefill.info.name()), prefill.target.address, LogSafe(decode.info.name()),
        decode.target.address, decode.push_address);
  }
}

// Another model is no error of one side; who is right cannot be known here, so the pair is refused
// and both are named.
void WorkerRegistry::NameUnlikeWorkers(Worker& worker) const {
  if (!worker.problem.empty()) return;
  for (const auto& [target, other] : workers_) {
    if (other.get() == &worker || other->id == 0 || !other->problem.empty()) continue;
    const absl::Status same = CheckSameIdentity(other->info.identity(), worker.info.identity());
    if (same.ok() || !MayLog(worker, loop_.Now())) continue;
    LogError("worker '{}' at {} and worker '{}' at {} are never paired: {}",
             LogSafe(worker.info.name()), worker.target.address, LogSafe(other->info.name()),
             target.address, LogSafe(same.message()));
  }
}

void WorkerRegistry::TakePages(Worker& worker, const internal::v1::PrefixDelta& delta) {
  const bool known = fleet_.pages().Apply(worker, delta);
  if (options_.on_pages) options_.on_pages(worker.target, fleet_.pages().pages(worker));
  if (known) return;
  if (MayLog(worker, loop_.Now())) {
    LogWarning("{} worker '{}' at {}: a message about its prefix pages is missing",
               WorkerRoleName(worker.target.role), LogSafe(worker.info.name()),
               worker.target.address);
  }
  if (worker.watch != nullptr) worker.watch->Cancel();  // the next stream begins with all pages
}

void WorkerRegistry::JudgeQuarantines() {
  baton::JudgeQuarantines(workers_, fleet_, options_.on_quarantine);
}

void WorkerRegistry::ForgetPages(Worker& worker) {
  fleet_.pages().Forget(worker);
  if (options_.on_pages) options_.on_pages(worker.target, 0);
}

void WorkerRegistry::WatchEnded(Worker& worker, const absl::Status& status) {
  worker.watch.reset();
  worker.state = internal::v1::WORKER_STATE_UNSPECIFIED;
  fleet_.ReadinessChanged(worker);
  if (!worker.flooding) worker.reach.Ended(ExplainUnreachable(status), loop_.Now());
  RetryLater(worker);
  if (worker.id != 0 && !closed_ && MayLog(worker, loop_.Now())) {
    LogWarning("{} worker '{}' at {}: watch ended: {}", WorkerRoleName(worker.target.role),
               LogSafe(worker.info.name()), worker.target.address, LogSafe(status.message()));
  }
  Publish();
  options_.on_change();
}

void WorkerRegistry::Lose(Worker& worker, const absl::Status& why) {
  if (MayLog(worker, loop_.Now())) {
    LogWarning("{} worker '{}' at {} is lost: {}", WorkerRoleName(worker.target.role),
               LogSafe(worker.info.name()), worker.target.address, LogSafe(why.message()));
  }
  const uint64_t id = worker.id;
  fleet_.Remove(worker);
  fleet_.links().Forget(id);
  options_.on_lost(id, why);
}

void WorkerRegistry::DropUnwanted() {
  for (auto it = workers_.begin(); it != workers_.end();) {
    Worker& worker = *it->second;
    const bool idle = worker.seen.own_sequences == 0 || closed_;
    if (!worker.wanted && idle && worker.watch != nullptr) worker.watch->Cancel();
    if (worker.wanted || !idle || worker.watch != nullptr) {
      ++it;
      continue;
    }
    fleet_.Remove(worker);
    ForgetPages(worker);
    fleet_.pages().Remove(worker);
    const bool told = !worker.quarantines.empty();
    const WorkerTarget target = it->first;
    it = workers_.erase(it);
    if (options_.on_gone) options_.on_gone(target);
    if (told) JudgeQuarantines();
  }
}

void WorkerRegistry::Close(std::function<void()> closed) {
  closed_ = std::move(closed);
  for (auto& [target, worker] : workers_) worker->wanted = false;
  loop_.Cancel(tick_);
  Tick();
}

void WorkerRegistry::Publish() {
  for (const auto& [target, worker] : workers_) {
    if (worker->up != worker->ready()) options_.on_up(target, worker->up = worker->ready());
  }
  view_.Publish(Summarize(workers_, fleet_, options_.expose_workers));
}

}  // namespace baton
