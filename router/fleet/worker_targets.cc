#include "router/fleet/worker_targets.h"

#include <netdb.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/numeric_address.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

constexpr char kDnsPrefix[] = "dns:///";
constexpr char kKeeping[] = "keeping what was known";
constexpr size_t kMaxFileBytes = size_t{1} << 20;
// A problem that lasts is logged again after this time.
constexpr absl::Duration kLogAgain = absl::Minutes(5);
// A lookup that has waited for so long is logged as one that failed.
constexpr absl::Duration kSlowAnswer = absl::Seconds(5);
// Time between two looks at what was answered.
constexpr absl::Duration kLookInterval = absl::Milliseconds(100);

bool IsName(const WorkerTarget& given) { return absl::StartsWith(given.address, kDnsPrefix); }

bool IsV6(const std::string& host) { return absl::StrContains(host, ':'); }

// Number of addresses of the larger family.
size_t MostOfAFamily(const std::vector<std::string>& hosts) {
  const auto v6 = static_cast<size_t>(std::count_if(hosts.begin(), hosts.end(), IsV6));
  return std::max(v6, hosts.size() - v6);
}

}  // namespace

absl::StatusOr<std::vector<WorkerTarget>> ParseWorkersFile(const std::string& path,
                                                           const std::string& content) {
  std::vector<WorkerTarget> targets;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", number, ": ", what, "; expected 'prefill HOST:PORT' or 'decode HOST:PORT'"));
    };
    if (words.size() != 2) return wrong(absl::StrCat(words.size(), " words"));
    WorkerTarget target;
    if (words[0] == "prefill") target.role = WORKER_ROLE_PREFILL;
    if (words[0] == "decode") target.role = WORKER_ROLE_DECODE;
    if (target.role == internal::v1::WORKER_ROLE_UNSPECIFIED) {
      return wrong(absl::StrCat("unknown role '", LogSafe(words[0]), "'"));
    }
    absl::StatusOr<std::string> address = NormalAddress(words[1]);
    if (!address.ok()) {
      return wrong(absl::StrCat("'", LogSafe(words[1]), "' ", address.status().message()));
    }
    target.address = *std::move(address);
    targets.push_back(std::move(target));
  }
  return targets;
}

void TargetLookup::Ask(absl::Time now) {
  if (const std::string& path = sources_.workers_file; !path.empty()) {
    auto parsed = [&path]() -> absl::StatusOr<std::vector<WorkerTarget>> {
      BATON_ASSIGN_OR_RETURN(const std::string content, ReadSmallFile(path, kMaxFileBytes));
      return ParseWorkersFile(path, content);
    }();
    Report(path, parsed.status(), kKeeping, now, file_problem_);
    if (parsed.ok()) file_ = *std::move(parsed);
  }
  const std::vector<WorkerTarget> given = Given();
  std::map<WorkerTarget, Known> known;
  std::vector<std::string> hosts;
  for (const WorkerTarget& target : given) {
    const absl::StatusOr<HostPort> address = ParseHostPort(target.address);
    if (!address.ok()) continue;  // unix:
    hosts.push_back(address->host);
    known.emplace(target, std::move(known_[target]));
  }
  known_ = std::move(known);
  resolver_.Ask(std::move(hosts), now);
}

FoundTargets TargetLookup::Found(absl::Time now) {
  FoundTargets found;
  for (const WorkerTarget& given : Given()) {
    if (IsName(given)) {
      AddName(given, now, found);
    } else {
      AddAddress(given, found);
    }
  }
  std::sort(found.targets.begin(), found.targets.end());
  found.targets.erase(std::unique(found.targets.begin(), found.targets.end()), found.targets.end());
  return found;
}

std::vector<WorkerTarget> TargetLookup::Given() const {
  std::vector<WorkerTarget> given = file_;
  for (const std::string& source : sources_.prefill) given.push_back({WORKER_ROLE_PREFILL, source});
  for (const std::string& source : sources_.decode) given.push_back({WORKER_ROLE_DECODE, source});
  std::sort(given.begin(), given.end());
  given.erase(std::unique(given.begin(), given.end()), given.end());
  return given;
}

void TargetLookup::AddName(const WorkerTarget& given, absl::Time now, FoundTargets& found) {
  const absl::StatusOr<HostPort> name = ParseHostPort(given.address);
  if (!name.ok()) return;
  Known& known = known_[given];
  const std::optional<HostAddresses> answer = resolver_.Latest(name->host);
  if (answer.has_value()) TakeAnswer(*answer, name->port, now, known);
  const bool vanished = known.vanished_since != absl::InfiniteFuture();
  absl::Status status = answer.has_value() ? answer->status() : absl::OkStatus();
  const std::optional<absl::Time> waits_since = resolver_.WaitsSince(name->host);
  if (waits_since.has_value() && now - *waits_since > kSlowAnswer) {
    status = absl::UnavailableError(gai_strerror(EAI_AGAIN));  // as the lookup itself will end
  }
  std::string effect = kKeeping;
  if (vanished) {
    effect = known.addresses.empty()
                 ? "it leads to no worker"
                 : absl::StrCat("its workers stay for ", absl::FormatDuration(kVanishedHold),
                                " while they answer");
  }
  Report(given.address, status, effect, now, known.problem);
  for (const std::string& address : known.addresses) {
    const WorkerTarget target{.role = given.role, .address = address};
    if (!vanished) found.targets.push_back(target);
    found.names.emplace(
        target, TargetName{.source = given.address, .alone = known.alone, .vanished = vanished});
  }
}

void TargetLookup::TakeAnswer(const HostAddresses& answer, uint16_t port, absl::Time now,
                              Known& known) {
  if (absl::IsNotFound(answer.status())) known.vanished_since = std::min(known.vanished_since, now);
  // An answer that failed says nothing new, so a name that vanished remains so.
  if (!answer.ok() && now - known.vanished_since < kVanishedHold) return;
  known.addresses.clear();
  if (!answer.ok()) return;
  known.vanished_since = absl::InfiniteFuture();
  known.alone = MostOfAFamily(*answer) == 1;
  for (const std::string& host : *answer) {
    known.addresses.push_back(HostPort{.host = host, .port = port}.ToString());
  }
}

void TargetLookup::AddAddress(const WorkerTarget& given, FoundTargets& found) {
  found.targets.push_back(given);
  const absl::StatusOr<HostPort> address = ParseHostPort(given.address);
  if (!address.ok() || ParseNumericAddress(address->host).has_value()) return;
  const std::optional<HostAddresses> answer = resolver_.Latest(address->host);
  if (!answer.has_value() || !answer->ok()) return;
  found.names[given].addresses = **answer;
  const size_t several = MostOfAFamily(**answer);
  if (several < 2 || std::exchange(known_[given].told_several, true)) return;
  LogWarning(
      "workers: {} has {} addresses, and one of them is used at a time; write dns:///{} to use "
      "each of them as a worker",
      LogSafe(given.address), several, LogSafe(address->ToString()));
}

void TargetLookup::Report(const std::string& source, const absl::Status& status,
                          const std::string& effect, absl::Time now, Problem& problem) {
  if (status.ok()) {
    if (!problem.text.empty()) LogInfo("workers: {}: found again", LogSafe(source));
    problem.text.clear();
    return;
  }
  std::string text = absl::StrCat(LogSafe(status.message()), "; ", effect);
  if (text == problem.text && now - problem.logged < kLogAgain) return;
  LogWarning("workers: {}: {}", LogSafe(source), text);
  problem = {std::move(text), now};
}

TargetPoller::TargetPoller(WorkerSources sources, absl::Duration interval,
                           std::function<void(FoundTargets)> report)
    : interval_(interval),
      report_(std::move(report)),
      lookup_(std::move(sources)),
      thread_(std::min(interval, kLookInterval), [this] { Look(); }) {}

void TargetPoller::Look() {
  const absl::Time now = SteadyNow();
  const bool due = now >= next_ask_;
  const uint64_t answers = lookup_.answers();
  if (!due && answers == answers_) return;
  answers_ = answers;
  if (due) {
    lookup_.Ask(now);
    next_ask_ = now + interval_;
  }
  FoundTargets found = lookup_.Found(now);
  if (!due && found == reported_) return;
  reported_ = found;
  report_(std::move(found));
}

}  // namespace baton
