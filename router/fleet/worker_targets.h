// Where workers are looked for: addresses given by flags, DNS names polled, a file read again and
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "baton/internal/v1/worker.pb.h"
#include "common/base/periodic_thread.h"
#include "router/fleet/name_resolver.h"

namespace baton {

// How long the workers behind a name that has ceased to exist (NXDOMAIN) are remembered. A restart
// of DNS looks like this, and so does a Service whose last worker is gone.
inline constexpr absl::Duration kVanishedHold = absl::Minutes(1);

struct WorkerTarget {
  internal::v1::WorkerRole role = internal::v1::WORKER_ROLE_UNSPECIFIED;
  std::string address;  // host:port
  friend auto operator<=>(const WorkerTarget&, const WorkerTarget&) = default;
};

struct WorkerSources {
  std::vector<std::string> prefill;  // host:port or dns:///name:port, as NormalAddress makes them
  std::vector<std::string> decode;
  std::string workers_file;  // empty: none
};

// What DNS answered about one target.
struct TargetName {
  std::string source{};  // dns:///name:port that led to the target; empty: none did
  bool alone = false;    // no other address of the target's family is behind `source`
  // `source` led to the target and ceased to exist less than kVanishedHold ago. The target is not
  // listed.
  bool vanished = false;
  // Addresses of the target's own host if that is a name: sorted, as numbers. Empty: not known yet.
  std::vector<std::string> addresses{};

  friend bool operator==(const TargetName&, const TargetName&) = default;
};
using TargetNames = std::map<WorkerTarget, TargetName>;

struct FoundTargets {
  std::vector<WorkerTarget> targets{};  // sorted, each once
  TargetNames names{};                  // only of targets that have to do with a name
  friend bool operator==(const FoundTargets&, const FoundTargets&) = default;
};

// A line each: "prefill ADDRESS" or "decode ADDRESS"; empty lines and what follows a # do not
// count. An address may be a dns:///name:port. Errors name the line.
absl::StatusOr<std::vector<WorkerTarget>> ParseWorkersFile(const std::string& path,
                                                           const std::string& content);

// Looks workers up. What cannot be looked up now keeps its place among the targets. Logs a source
// that fails once for each reason, and again every 5 minutes. On one thread only; waits for no DNS
// server.
class TargetLookup {
 public:
  explicit TargetLookup(WorkerSources sources, NameResolver::LookUp look_up = LookUpHost)
      : sources_(std::move(sources)), resolver_(std::move(look_up)) {}

  // Reads the workers file, and starts to look up all names.
  void Ask(absl::Time now);
  // Returns what is known by now.
  FoundTargets Found(absl::Time now);
  // Returns how many lookups are complete. Found may return something else after Ask, after this
  // number has changed, and later.
  uint64_t answers() const { return resolver_.answers(); }

 private:
  struct Problem {
    std::string text{};  // as logged; empty: none
    absl::Time logged{};
  };
  struct Known {
    std::vector<std::string> addresses{};  // host:port behind a dns:/// name, as last answered
    bool alone = false;                    // as TargetName's, of each of them
    absl::Time vanished_since = absl::InfiniteFuture();  // infinite: the name exists
    bool told_several = false;  // the log says that a plain name has several addresses
    Problem problem{};
  };

  // All targets as flags and file have them, dns:/// names too.
  std::vector<WorkerTarget> Given() const;
  void AddName(const WorkerTarget& given, absl::Time now, FoundTargets& found);
  void AddAddress(const WorkerTarget& given, FoundTargets& found);
  static void TakeAnswer(const HostAddresses& answer, uint16_t port, absl::Time now, Known& known);
  static void Report(const std::string& source, const absl::Status& status,
                     const std::string& effect, absl::Time now, Problem& problem);

  const WorkerSources sources_;
  NameResolver resolver_;
  std::vector<WorkerTarget> file_;  // targets of the workers file, as last read without an error
  Problem file_problem_;
  std::map<WorkerTarget, Known> known_;  // by target as given
};

// A thread that looks up every `interval`.
class TargetPoller {
 public:
  // `report` is called on the poller's thread: first at once, then every `interval`, and within
  // 100 ms of an answer that changes something.
  TargetPoller(WorkerSources sources, absl::Duration interval,
               std::function<void(FoundTargets)> report);

 private:
  void Look();

  const absl::Duration interval_;
  const std::function<void(FoundTargets)> report_;
  TargetLookup lookup_;
  absl::Time next_ask_ = absl::InfinitePast();
  uint64_t answers_ = 0;  // number of the lookup's answers that were handled
  FoundTargets reported_;
  PeriodicThread thread_;  // runs Look, and ends before what is above
};

}  // namespace baton
