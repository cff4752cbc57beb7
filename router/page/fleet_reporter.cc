#include "router/page/fleet_reporter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/protocol/identity.h"

namespace baton {
namespace {

constexpr char kReady[] = "ready", kDraining[] = "draining", kQuarantined[] = "quarantined",
               kSuspected[] = "suspected", kUnreachable[] = "unreachable";

constexpr size_t kMostPrefixes = 256;
constexpr size_t kMostHolders = 8;  // names for each; a large fleet would fill the loop with them
constexpr uint64_t kTicksOfPrefixes = 4;  // once a second

// Sets `problem` to why the worker is in its state; it prints.
std::string StateOf(const Worker& worker, std::string& problem) {
  if (worker.id == 0 || worker.watch == nullptr) {
    problem = worker.info.name().empty() ? "it has not answered yet" : "it does not answer";
    if (!worker.reach.why().empty()) absl::StrAppend(&problem, ": ", worker.reach.why());
    return kUnreachable;
  }
  if (!worker.problem.empty()) {
    problem = absl::StrCat("it ", LogSafe(worker.problem));
    return "refused";
  }
  if (!worker.quarantined_by.empty()) {
    problem = absl::StrCat("decode worker '", LogSafe(worker.quarantined_by),
                           "' found wrong KV in what it pushed");
    return kQuarantined;
  }
  if (worker.stuck()) {
    problem = "it has work and makes no progress";
    return "stuck";
  }
  if (!worker.wanted || worker.state == internal::v1::WORKER_STATE_DRAINING) {
    problem = "it is being shut down";
    return kDraining;
  }
  if (worker.state != internal::v1::WORKER_STATE_READY) {
    problem = "it starts";
    return "starting";
  }
  if (!worker.breaker.open()) return kReady;
  problem = "it failed several times in a row and gets one request at a time";
  return kSuspected;
}

BlockCounts BlocksOf(const Worker& worker) {
  BlockCounts blocks;
  blocks.total = worker.info.total_blocks();
  const uint32_t available = std::min(worker.load.free_blocks(), blocks.total);
  blocks.cached = std::min(worker.load.cached_blocks(), available);
  blocks.free = available - blocks.cached;
  blocks.used = blocks.total - available;
  return blocks;
}

// Enough of each digest to tell models apart, and short enough to be read.
std::string IdentityOf(const internal::v1::ModelIdentity& identity) {
  const auto head = [](const std::string& digest) { return ToHex(digest).substr(0, 16); };
  return LogSafe(absl::StrCat(
      "protocol ", identity.protocol_version(), ", ", identity.architecture(), ", weights ",
      head(identity.weights_digest()), ", config ", head(identity.config_digest()), ", tokenizer ",
      head(identity.tokenizer_digest())));
}

void DescribeCache(const Worker& worker, WorkerReport& report) {
  const internal::v1::KvShape& shape = worker.info.shape();
  report.kv_dtype = LogSafe(shape.dtype());
  report.numerics = LogSafe(shape.numerics());
  report.block_size = shape.block_size();
  if (!ValidateShape(shape, "shape").ok()) return;
  report.bytes_per_token = worker.seen.kv_bytes_per_token;
  for (const KvType type : {KvType::kF16, KvType::kInt8, KvType::kInt4}) {
    if (!TakesHeadDim(type, shape.head_dim())) continue;
    report.bytes_per_token_of[KvTypeName(type)] =
        KvTokenBytes(type, shape.layers(), shape.kv_heads(), shape.head_dim());
  }
}

std::vector<PrefixPageReport> DescribePrefixes(const WorkerPages& pages) {
  std::vector<PrefixPageReport> reports;
  for (const WorkerPages::ReusedPage& one : pages.MostReused(kMostPrefixes, kMostHolders)) {
    PrefixPageReport& report = reports.emplace_back();
    report.page = one.page.page;
    report.parent = one.page.parent;
    report.depth_tokens = one.page.depth_tokens;
    report.reused = one.page.count;
    report.holders = one.holders;
    for (const Worker* worker : one.workers) {
      report.workers.push_back(LogSafe(worker->info.name()));
    }
  }
  return reports;
}

std::vector<LinkReport> DescribeLinks(Fleet& fleet) {
  std::vector<LinkReport> reports;
  for (const LinkFailure& failure : fleet.link_failures().Get(fleet.Now())) {
    const Worker* const prefill = fleet.Find(failure.prefill);
    const Worker* const decode = fleet.Find(failure.decode);
    if (prefill == nullptr || decode == nullptr) continue;
    reports.push_back({.prefill = LogSafe(prefill->info.name()),
                       .decode = LogSafe(decode->info.name()),
                       .prefill_address = prefill->target.address,
                       .decode_address = decode->pushes_go_to(),
                       .reason = failure.fault,
                       .problem = failure.text,
                       .failures = failure.count,
                       .since_last = fleet.Now() - failure.last});
  }
  return reports;
}

bool IsUsed(const std::string& state) { return state == kReady || state == kSuspected; }

}  // namespace

WorkerReport FleetReporter::Describe(const Worker& worker, absl::Time now) const {
  WorkerReport report;
  report.role = WorkerRoleName(worker.target.role);
  report.address = worker.target.address;
  report.known = !worker.info.name().empty();
  report.name = report.known ? LogSafe(worker.info.name()) : report.address;
  report.state = StateOf(worker, report.problem);
  if (!report.known) return report;
  report.running = worker.load.running_sequences();
  report.waiting = worker.load.waiting_sequences();
  report.in_flight = worker.seen.own_sequences;
  report.blocks = BlocksOf(worker);
  if (worker.last_heard != absl::InfinitePast()) report.silent = now - worker.last_heard;
  report.version = LogSafe(worker.info.version());
  report.weights = LogSafe(worker.info.weights_type());
  report.identity = IdentityOf(worker.info.identity());
  report.prefix_pages = fleet_.pages().pages(worker);
  DescribeCache(worker, report);
  return report;
}

void FleetReporter::Tick(const WorkersByTarget& workers, const Advice& advice) {
  const absl::Time now = fleet_.Now();
  auto report = std::make_shared<FleetReport>();
  report->advice = advice;
  FleetRates& all = report->rates;
  for (const auto& [target, worker] : workers) {
    if (!worker->spare_of.empty()) continue;
    Told& told = told_[target];
    WorkerReport& one = report->workers.emplace_back(Describe(*worker, now));
    one.rates = told.rates.Take(worker->traffic, now);
    all.output_tokens += one.rates.output_tokens;
    all.prompt_tokens += one.rates.prompt_tokens;
    if (target.role == internal::v1::WORKER_ROLE_PREFILL) {
      all.hand_offs += one.rates.hand_offs;
      all.hand_off_bytes += one.rates.hand_off_bytes;
    }
    TellChange(one, told);
  }
  for (auto it = told_.begin(); it != told_.end();) {
    it = workers.count(it->first) == 0 ? told_.erase(it) : std::next(it);
  }
  report->links = DescribeLinks(fleet_);
  TellRefusals();
  if (ticks_++ % kTicksOfPrefixes == 0) prefixes_ = DescribePrefixes(fleet_.pages());
  report->prefixes = prefixes_;
  board_.Publish(std::move(report));
}

void FleetReporter::TellChange(const WorkerReport& report, Told& told) {
  if (report.state == told.state) return;
  const std::string before = std::exchange(told.state, report.state);
  const auto tell = [&](FleetEvent::Kind kind, absl::string_view what) {
    events_.Add({.kind = kind,
                 .worker = report.name,
                 .text = absl::StrCat("The ", report.role, " worker ", what, ".")});
  };
  if (report.state == kQuarantined) {
    tell(FleetEvent::Kind::kQuarantined, absl::StrCat("is not used: ", report.problem));
  } else if (report.state == kDraining) {
    tell(FleetEvent::Kind::kWorkerDraining, "is being shut down");
  } else if (IsUsed(report.state) && !IsUsed(before)) {
    tell(FleetEvent::Kind::kWorkerUp, "is ready");
  } else if (!IsUsed(report.state) && (IsUsed(before) || before == kDraining)) {
    tell(FleetEvent::Kind::kWorkerDown, absl::StrCat("is not used: ", report.problem));
  }
}

// One event for all of a reason since the last, so that a flood leaves room for other events.
void FleetReporter::TellRefusals() {
  for (auto& [reason, count] : refusals_()) {
    const uint64_t before = std::exchange(refused_[reason], count);
    if (count == before) continue;
    events_.Add(
        {.kind = FleetEvent::Kind::kRefused,
         .text = absl::StrCat(count - before, count - before == 1 ? " request" : " requests",
                              " refused: ", absl::AsciiStrToLower(reason), ".")});
  }
}

}  // namespace baton
