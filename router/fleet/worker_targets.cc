#include "router/fleet/worker_targets.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/address.h"
#include "common/base/log.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

constexpr char kDnsPrefix[] = "dns:///";
constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::StatusOr<std::vector<std::string>> Resolve(const std::string& source) {
  BATON_ASSIGN_OR_RETURN(const HostPort name, ParseHostPort(source));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(name.host.c_str(), nullptr, &hints, &list);
  if (error == EAI_NONAME) return std::vector<std::string>();  // no pod behind the name
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char host[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, host, sizeof(host), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.push_back(HostPort{.host = host, .port = name.port}.ToString());
    }
  }
  return addresses;
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

std::vector<WorkerTarget> TargetLookup::Now() {
  std::vector<WorkerTarget> targets;
  for (const std::string& source : sources_.prefill) {
    AddSource(WORKER_ROLE_PREFILL, source, &targets);
  }
  for (const std::string& source : sources_.decode) {
    AddSource(WORKER_ROLE_DECODE, source, &targets);
  }
  if (!sources_.workers_file.empty()) AddFile(&targets);
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets;
}

void TargetLookup::AddSource(internal::v1::WorkerRole role, const std::string& source,
                             std::vector<WorkerTarget>* targets) {
  if (!absl::StartsWith(source, kDnsPrefix)) {
    targets->push_back({.role = role, .address = source});
    return;
  }
  Known& known = KnownOf(absl::StrCat(role, " ", source));
  const absl::StatusOr<std::vector<std::string>> addresses = Resolve(source);
  Report(absl::StrCat(role, " ", source), addresses.status());
  if (addresses.ok()) {
    known.targets.clear();
    for (const std::string& address : *addresses) {
      known.targets.push_back({.role = role, .address = address});
    }
  }
  targets->insert(targets->end(), known.targets.begin(), known.targets.end());
}

void TargetLookup::AddFile(std::vector<WorkerTarget>* targets) {
  const std::string& path = sources_.workers_file;
  Known& known = KnownOf(path);
  const auto parsed = [&path]() -> absl::StatusOr<std::vector<WorkerTarget>> {
    BATON_ASSIGN_OR_RETURN(const std::string content, ReadSmallFile(path, kMaxFileBytes));
    return ParseWorkersFile(path, content);
  }();
  Report(path, parsed.status());
  if (parsed.ok()) known.targets = *parsed;
  targets->insert(targets->end(), known.targets.begin(), known.targets.end());
}

TargetLookup::Known& TargetLookup::KnownOf(const std::string& source) {
  for (auto& [name, known] : known_) {
    if (name == source) return known;
  }
  return known_.emplace_back(source, Known{}).second;
}

void TargetLookup::Report(const std::string& source, const absl::Status& status) {
  Known& known = KnownOf(source);
  const std::string problem(status.message());
  if (!problem.empty() && problem != known.problem) {
    LogWarning("workers: {}: {}; keeping what was known", LogSafe(source), LogSafe(problem));
  }
  known.problem = problem;
}

TargetPoller::TargetPoller(WorkerSources sources, absl::Duration interval,
                           std::function<void(std::vector<WorkerTarget>)> report)
    : thread_(interval, [lookup = TargetLookup(std::move(sources)),
                         report = std::move(report)]() mutable { report(lookup.Now()); }) {}

}  // namespace baton
