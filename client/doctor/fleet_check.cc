#include "client/doctor/fleet_check.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

struct FleetWorker {
  std::string name, address, role, state, problem;
  std::string identity, kv_dtype, numerics, version, weights;

  bool used() const { return state == "ready" || state == "suspected"; }
  std::string text() const { return absl::StrCat(role, " ", name, " ", address); }
};

std::string MemberText(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<FleetWorker> WorkersOf(const Json& fleet) {
  std::vector<FleetWorker> workers;
  for (const Json& worker : fleet["workers"]) {
    workers.push_back({.name = MemberText(worker, "name"),
                       .address = MemberText(worker, "address"),
                       .role = MemberText(worker, "role"),
                       .state = MemberText(worker, "state"),
                       .problem = MemberText(worker, "problem"),
                       .identity = MemberText(worker, "identity"),
                       .kv_dtype = MemberText(worker, "kv_dtype"),
                       .numerics = MemberText(worker, "numerics"),
                       .version = MemberText(worker, "version"),
                       .weights = MemberText(worker, "weights")});
  }
  return workers;
}

// What is to be done of a worker in a state (docs/page.md).
struct StateAdvice {
  const char* state;
  Verdict verdict;
  const char* remedy;
};
constexpr StateAdvice kStates[] = {
    {"ready", Verdict::kOk, ""},
    {"starting", Verdict::kWarning, "wait until the worker has loaded its model"},
    {"draining", Verdict::kWarning,
     "the worker is shutting down; start another one if that was not intended"},
    {"suspected", Verdict::kWarning, "look up the worker's last error in the router's log"},
    {"unreachable", Verdict::kFailed,
     "start the worker, or check its log and the network between it and the router"},
    {"refused", Verdict::kFailed,
     "start all routers and workers with the same version and model file"},
    {"stuck", Verdict::kFailed, "check the worker's log, then restart it"},
    {"quarantined", Verdict::kFailed,
     "test the machine's memory and the model file, then restart the decode worker that reported "
     "the error"},
};

Finding WorkerFinding(const FleetWorker& worker) {
  Finding finding{.check = "fleet.worker", .subject = worker.text(), .found = worker.state};
  if (!worker.problem.empty()) absl::StrAppend(&finding.found, ": ", worker.problem);
  if (worker.used()) {
    absl::StrAppend(&finding.found, ", Baton ", worker.version, ", weights ", worker.weights,
                    ", KV ", worker.kv_dtype);
  }
  const auto advice =
      std::find_if(std::begin(kStates), std::end(kStates),
                   [&](const StateAdvice& one) { return worker.state == one.state; });
  if (advice != std::end(kStates)) {
    finding.verdict = advice->verdict;
    finding.remedy = advice->remedy;
  } else {
    finding.verdict = Verdict::kWarning;  // a state that only later versions have
  }
  return finding;
}

// What is to be done about a link by the reason of its failures (docs/page.md).
struct LinkAdvice {
  const char* reason;
  const char* remedy;
};
constexpr LinkAdvice kLinkReasons[] = {
    {"unprotected",
     "start the prefill worker with certificates, or with --insecure for plain text"},
    {"unreachable",
     "make that address reachable from the prefill worker's machine, or give the decode worker "
     "another --advertise"},
    {"large_packets",
     "lower the MTU of both machines' interfaces, or let ICMP 'fragmentation needed' pass"},
    {"silent",
     "check the decode worker's log, and firewalls between the two machines that drop packets"},
};

Findings LinkFindings(const Json& fleet) {
  Findings findings;
  const auto links = fleet.find("links");
  if (links == fleet.end() || !links->is_array()) return findings;
  for (const Json& link : *links) {
    if (!link.is_object()) continue;
    const std::string reason = MemberText(link, "reason");
    const auto advice = std::find_if(std::begin(kLinkReasons), std::end(kLinkReasons),
                                     [&](const LinkAdvice& one) { return reason == one.reason; });
    findings.push_back(
        {.check = "fleet.link",
         .subject = absl::StrCat("prefill ", MemberText(link, "prefill_worker"), " ",
                                 MemberText(link, "prefill_address"), " to decode ",
                                 MemberText(link, "decode_worker"), " ",
                                 MemberText(link, "decode_address")),
         .verdict = Verdict::kFailed,
         .found = absl::StrCat("hand-offs fail (", reason, "): ", MemberText(link, "problem")),
         .remedy = advice != std::end(kLinkReasons)
                       ? advice->remedy
                       : "check the logs of both workers and the network between them"});
  }
  return findings;
}

size_t UsedOf(const std::vector<FleetWorker>& workers, const char* role) {
  return static_cast<size_t>(std::count_if(
      workers.begin(), workers.end(),
      [role](const FleetWorker& worker) { return worker.role == role && worker.used(); }));
}

Finding RolesFinding(const std::string& router, const std::vector<FleetWorker>& workers) {
  const size_t prefill = UsedOf(workers, "prefill");
  const size_t decode = UsedOf(workers, "decode");
  Finding finding{.check = "fleet.roles", .subject = router};
  finding.found = absl::StrCat(prefill, " prefill and ", decode, " decode workers can be used");
  if (decode == 0) {
    finding.verdict = Verdict::kFailed;
    finding.remedy = "start a decode worker: without one, no request is answered";
  } else if (prefill == 0) {
    finding.verdict = Verdict::kWarning;
    finding.remedy =
        "start a prefill worker, or let decode workers compute prompts, which they do unless "
        "--disaggregate is always";
  }
  return finding;
}

// The workers that can be used by what `member` says of them; members that do not say are left out.
std::map<std::string, std::vector<const FleetWorker*>> Grouped(
    const std::vector<FleetWorker>& workers, std::string FleetWorker::*member) {
  std::map<std::string, std::vector<const FleetWorker*>> groups;
  for (const FleetWorker& worker : workers) {
    if (worker.used() && !(worker.*member).empty()) groups[worker.*member].push_back(&worker);
  }
  return groups;
}

bool HasRole(const std::vector<const FleetWorker*>& workers, const char* role) {
  return std::any_of(workers.begin(), workers.end(),
                     [role](const FleetWorker* worker) { return worker->role == role; });
}

// One model is a fleet. Of several, each needs both roles, or its prefill workers are unused.
Finding ModelFinding(const std::string& router, const std::vector<FleetWorker>& workers) {
  Finding finding{
      .check = "fleet.model", .subject = router, .found = "all workers serve the same model"};
  const auto groups = Grouped(workers, &FleetWorker::identity);
  if (groups.empty()) {
    finding.verdict = Verdict::kSkipped;
    finding.found = "no usable worker reports its model";
  }
  if (groups.size() < 2) return finding;
  std::vector<std::string> texts;
  bool lonely = false;
  for (const auto& [identity, of_it] : groups) {
    lonely |= !HasRole(of_it, "decode");
    std::vector<std::string> names;
    for (const FleetWorker* worker : of_it) names.push_back(worker->text());
    texts.push_back(absl::StrCat("{", identity, "}: ", absl::StrJoin(names, ", ")));
  }
  finding.verdict = lonely ? Verdict::kFailed : Verdict::kWarning;
  finding.found =
      absl::StrCat("workers of different models are never paired: ", absl::StrJoin(texts, "; "));
  finding.remedy = "start all workers with the same model file, --quantize and version";
  return finding;
}

// Whether all that can be used say the same of themselves; else what `otherwise` says is to do.
Finding SameFinding(const std::string& router, const char* check,
                    const std::vector<FleetWorker>& workers, std::string FleetWorker::*member,
                    const char* otherwise) {
  Finding finding{.check = check, .subject = router};
  const auto groups = Grouped(workers, member);
  std::vector<std::string> texts;
  for (const auto& [value, of_it] : groups) {
    texts.push_back(absl::StrCat(value, groups.size() == 1 ? "" : " of ",
                                 groups.size() == 1 ? "" : of_it.front()->text(),
                                 of_it.size() > 1 && groups.size() > 1 ? " and others" : ""));
  }
  finding.found = absl::StrJoin(texts, ", ");
  if (groups.empty()) {
    finding.verdict = Verdict::kSkipped;
    finding.found = "no usable worker reports it";
  } else if (groups.size() > 1) {
    finding.verdict = Verdict::kWarning;
    finding.remedy = otherwise;
  }
  return finding;
}

}  // namespace

Findings FleetFindings(const std::string& router, const Json& fleet) {
  const std::vector<FleetWorker> workers = WorkersOf(fleet);
  Findings findings;
  for (const FleetWorker& worker : workers) findings.push_back(WorkerFinding(worker));
  for (Finding& link : LinkFindings(fleet)) findings.push_back(std::move(link));
  findings.push_back(RolesFinding(router, workers));
  findings.push_back(ModelFinding(router, workers));
  findings.push_back(SameFinding(router, "fleet.kv_type", workers, &FleetWorker::kv_dtype,
                                 "give all workers the same --kv-cache-dtype; if types differ, "
                                 "hand-offs convert the KV cache, or fail with --strict-kv-dtype"));
  findings.push_back(
      SameFinding(router, "fleet.numerics", workers, &FleetWorker::numerics,
                  "give all workers the same device and --kv-cache-dtype, or accept that an answer "
                  "may differ if it continues on another worker (docs/numerics.md)"));
  findings.push_back(SameFinding(router, "fleet.version", workers, &FleetWorker::version,
                                 "upgrade all routers and workers to the same version"));
  return findings;
}

}  // namespace baton
