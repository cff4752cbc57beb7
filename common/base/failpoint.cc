#include "common/base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "common/base/failpoint_socket.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

enum class Action { kError, kCorrupt, kSleep, kKill, kStop };

struct Armed {
  Action action = Action::kError;
  std::string text;          // the action as it was written
  uint32_t sleep_ms = 0;     // for kSleep
  uint64_t only_at = 0;      // the hit, counted from the arming, at which it acts; 0: at each
  uint64_t hits_before = 0;  // hits before it was armed
};

struct Point {
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> fired{0};
  std::atomic<bool> armed{false};  // looked at first: an unarmed point costs only one addition
  std::optional<Armed> plan;       // guarded by plans_mutex
};

std::array<Point, kFailpointCount> points;
std::mutex plans_mutex;

std::string NameOf(size_t index) { return std::string(kFailpoints[index].name); }

// The action that is due at this hit, if any. It is written to stderr now, because the process may
// not live long enough to write it later.
std::optional<Armed> Due(size_t index) {
  Point& point = points[index];
  const uint64_t hit = point.hits.fetch_add(1) + 1;
  if (!point.armed.load()) return std::nullopt;
  std::optional<Armed> due;
  {
    const std::lock_guard lock(plans_mutex);
    if (!point.plan.has_value()) return std::nullopt;
    if (point.plan->only_at != 0 && hit - point.plan->hits_before != point.plan->only_at) {
      return std::nullopt;
    }
    due = point.plan;
  }
  point.fired.fetch_add(1);
  std::fprintf(stderr, "failpoint %s: %s, hit %llu\n", NameOf(index).c_str(), due->text.c_str(),
               static_cast<unsigned long long>(hit));
  return due;
}

void ActOnProcess(const Armed& armed) {
  if (armed.action == Action::kSleep) absl::SleepFor(absl::Milliseconds(armed.sleep_ms));
  // raise sends the signal to this thread, which so stops here. A signal to the process might reach
  // another thread first, and this one would go on for a while.
  if (armed.action == Action::kStop) raise(SIGSTOP);
  if (armed.action != Action::kKill) return;
  kill(getpid(), SIGKILL);
  pause();  // nothing after the point happens
}

absl::StatusOr<Armed> ParseAction(FailpointForm form, absl::string_view text) {
  Armed armed{.text = std::string(text)};
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('@', 1));
  if (absl::StrContains(text, "@") &&
      (!absl::SimpleAtoi(parts.second, &armed.only_at) || armed.only_at == 0)) {
    return absl::InvalidArgumentError("the N in @N must be a number of at least 1");
  }
  absl::string_view action = parts.first;
  if (action == "kill") {
    armed.action = Action::kKill;
  } else if (action == "stop") {
    armed.action = Action::kStop;
  } else if (absl::ConsumePrefix(&action, "sleep(") && absl::ConsumeSuffix(&action, ")") &&
             absl::SimpleAtoi(action, &armed.sleep_ms)) {
    armed.action = Action::kSleep;
  } else if (action == "error" && form == FailpointForm::kStatus) {
    armed.action = Action::kError;
  } else if (action == "corrupt" && form == FailpointForm::kBytes) {
    armed.action = Action::kCorrupt;
  } else {
    return absl::InvalidArgumentError("the failpoint does not support this action");
  }
  return armed;
}

// Parses one entry of a plan: the index of its point and the action.
absl::StatusOr<std::pair<size_t, Armed>> ParseEntry(absl::string_view entry) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(entry, absl::MaxSplits('=', 1));
  for (size_t index = 0; index < kFailpointCount; ++index) {
    if (NameOf(index) != parts.first) continue;
    BATON_ASSIGN_OR_RETURN(Armed armed, ParseAction(kFailpoints[index].form, parts.second));
    return std::pair(index, std::move(armed));
  }
  return absl::InvalidArgumentError("there is no such failpoint");
}

}  // namespace

void ReachFailpoint(size_t index) {
  if (const std::optional<Armed> due = Due(index)) ActOnProcess(*due);
}

absl::Status FailpointStatus(size_t index) {
  const std::optional<Armed> due = Due(index);
  if (!due.has_value()) return absl::OkStatus();
  ActOnProcess(*due);
  if (due->action != Action::kError) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("failpoint ", NameOf(index)));
}

void FailpointBytes(size_t index, void* bytes, size_t size) {
  const std::optional<Armed> due = Due(index);
  if (!due.has_value()) return;
  ActOnProcess(*due);
  if (due->action == Action::kCorrupt && size > 0) static_cast<uint8_t*>(bytes)[size / 2] ^= 1;
}

absl::Status ArmFailpoints(const std::string& plan) {
  std::vector<std::pair<size_t, Armed>> entries;
  for (const absl::string_view entry : absl::StrSplit(plan, ';', absl::SkipWhitespace())) {
    auto parsed = ParseEntry(absl::StripAsciiWhitespace(entry));
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("failpoint \"", entry, "\": ", parsed.status().message()));
    }
    entries.push_back(*std::move(parsed));
  }
  const std::lock_guard lock(plans_mutex);
  for (auto& [index, armed] : entries) {
    armed.hits_before = points[index].hits;
    points[index].plan = std::move(armed);
    points[index].armed = true;
  }
  return absl::OkStatus();
}

void DisarmFailpoints() {
  const std::lock_guard lock(plans_mutex);
  for (Point& point : points) {
    point.armed = false;
    point.plan.reset();
  }
}

std::vector<FailpointCount> CountFailpoints() {
  std::vector<FailpointCount> counts;
  for (const Point& point : points) counts.push_back({.hits = point.hits, .fired = point.fired});
  return counts;
}

absl::Status StartFailpoints() {
  if (const char* plan = std::getenv("BATON_FAILPOINTS")) {
    BATON_RETURN_IF_ERROR(ArmFailpoints(plan));
  }
  const char* path = std::getenv("BATON_FAILPOINT_SOCKET");
  return path == nullptr ? absl::OkStatus() : ServeFailpoints(path);
}

}  // namespace baton
