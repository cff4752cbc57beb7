#include "client/status/fleet_status.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "common/base/log.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// What each router counts for itself, so that the fleet has the sum.
constexpr const char* kSums[] = {"tokens_per_second", "prompt_tokens_per_second",
                                 "handoffs_per_second", "handoff_bytes_per_second"};

// Null if there is none of that name.
const Json& MemberOf(const Json& object, const char* key) {
  static const Json kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}
double NumberOf(const Json& object, const char* key) {
  const Json& value = MemberOf(object, key);
  return value.is_number() ? value.get<double>() : 0;
}
std::string TextOf(const Json& object, const char* key) {
  const Json& value = MemberOf(object, key);
  return value.is_string() ? LogSafe(value.get<std::string>()) : "";
}
bool IsListOfObjects(const Json& list) {
  return list.is_array() &&
         std::all_of(list.begin(), list.end(), [](const Json& one) { return one.is_object(); });
}

void AddTo(Json& sum, const Json& other, const char* key) {
  if (MemberOf(other, key).is_number()) sum[key] = NumberOf(sum, key) + NumberOf(other, key);
}

// The newer word on the worker, with the sums of both.
void JoinWorker(Json other, Json& worker) {
  const bool newer = MemberOf(other, "silent_ms").is_number() &&
                     (!MemberOf(worker, "silent_ms").is_number() ||
                      NumberOf(other, "silent_ms") < NumberOf(worker, "silent_ms"));
  if (newer) std::swap(worker, other);
  for (const char* key : kSums) AddTo(worker, other, key);
  if (MemberOf(other, "in_flight").is_number()) {
    worker["in_flight"] =
        static_cast<int64_t>(NumberOf(worker, "in_flight") + NumberOf(other, "in_flight"));
  }
}

// Each router counts the failures of its own requests.
void JoinLinks(const Json& other, Json& joined) {
  if (!IsListOfObjects(other) || other.empty()) return;
  Json& links = joined["links"];
  if (!links.is_array()) links = Json::array();
  for (const Json& link : other) links.push_back(link);
}

constexpr const char* kRoles[] = {"prefill", "decode"};

// What the routers' loads need together. A router that does not know adds nothing; what it would
// take to share the workers, or to do without a role, only one router can say.
void JoinAdvice(const Json& other, Json& advice) {
  if (!other.is_object() || !advice.is_object()) return;
  advice.erase("colocated");
  for (const char* role : kRoles) {
    const Json& more = MemberOf(other, role);
    if (!more.is_object() || !MemberOf(advice, role).is_object()) continue;
    Json& joined = advice[role];
    joined.erase("balanced");
    joined["ready"] =
        static_cast<int64_t>(std::max(NumberOf(joined, "ready"), NumberOf(more, "ready")));
    if (!MemberOf(more, "needed").is_number()) continue;
    AddTo(joined, more, "needed");
    joined["advised"] = static_cast<int64_t>(std::max(1.0, std::ceil(NumberOf(joined, "needed"))));
    joined["why"] = absl::StrFormat("the routers together need %.3g", NumberOf(joined, "needed"));
  }
}

std::string AlignedRow(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) {
    absl::StrAppend(&row, cells[i]);
    if (i + 1 < cells.size()) row.append(widths[i] - std::min(widths[i], cells[i].size()) + 2, ' ');
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row + "\n";
}

std::string AlignedTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) text += AlignedRow(row, widths);
  return text;
}

std::string CountOf(const Json& object, const char* key) {
  return MemberOf(object, key).is_number() ? absl::StrFormat("%.0f", NumberOf(object, key)) : "-";
}
std::string RateOf(const Json& object, const char* key, double unit = 1) {
  return MemberOf(object, key).is_number() ? absl::StrFormat("%.1f", NumberOf(object, key) / unit)
                                           : "-";
}

std::string UptimeText(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole >= 86400) return absl::StrFormat("%dd%02dh", whole / 86400, whole / 3600 % 24);
  if (whole >= 3600) return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
  return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
}

constexpr size_t kCells = 10;  // characters in a bar

// Blocks as a bar of ten: used, cached, free.
std::string KvBar(const Json& blocks) {
  const double total = NumberOf(blocks, "total");
  if (total <= 0) return "-";

  const auto cells = [total](double blocks_of_it) {
    return std::min(kCells, static_cast<size_t>(std::lround(blocks_of_it / total * kCells)));
  };
  const size_t used = cells(NumberOf(blocks, "used"));
  const size_t taken = std::max(used, cells(NumberOf(blocks, "used") + NumberOf(blocks, "cached")));
  return absl::StrCat("[", std::string(used, '#'), std::string(taken - used, '+'),
                      std::string(kCells - taken, '.'), "] ",
                      absl::StrFormat("%.0f %%", NumberOf(blocks, "used") / total * 100));
}

std::string RouterRows(const Json& fleet) {
  std::vector<std::vector<std::string>> rows = {
      {"ROUTER", "STATE", "UP", "RUNNING", "WAITING", "BEHIND", "REFUSED"}};
  for (const Json& router : MemberOf(fleet, "routers")) {
    double refused = 0;
    for (const Json& count : MemberOf(router, "refused")) {
      if (count.is_number()) refused += count.get<double>();
    }
    rows.push_back({TextOf(router, "name"), TextOf(router, "state"),
                    UptimeText(NumberOf(router, "uptime_s")), CountOf(router, "running"),
                    CountOf(router, "waiting"), CountOf(router, "streams_behind"),
                    absl::StrFormat("%.0f", refused)});
  }
  return AlignedTable(rows);
}

std::string WorkerRows(const Json& fleet) {
  std::vector<std::vector<std::string>> rows = {{"WORKER", "ROLE", "STATE", "RUNNING", "WAITING",
                                                 "KV", "TOKENS/S", "HAND-OFFS/S", "MB/S",
                                                 "EXPOSED MS", "PROBLEM"}};
  for (const Json& worker : MemberOf(fleet, "workers")) {
    rows.push_back({TextOf(worker, "name"), TextOf(worker, "role"), TextOf(worker, "state"),
                    CountOf(worker, "running"), CountOf(worker, "waiting"),
                    KvBar(MemberOf(worker, "blocks")), RateOf(worker, "tokens_per_second"),
                    RateOf(worker, "handoffs_per_second"),
                    RateOf(worker, "handoff_bytes_per_second", 1e6),
                    RateOf(worker, "exposed_transfer_ms"), TextOf(worker, "problem")});
  }
  return AlignedTable(rows);
}

// The links on which hand-offs fail. Empty if there are none.
std::string LinkRows(const Json& fleet) {
  const Json& links = MemberOf(fleet, "links");
  if (!IsListOfObjects(links) || links.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"FAILING LINK FROM", "TO", "PUSH ADDRESS", "FAILURES", "REASON", "PROBLEM"}};
  for (const Json& link : links) {
    rows.push_back({TextOf(link, "prefill_worker"), TextOf(link, "decode_worker"),
                    TextOf(link, "decode_address"), CountOf(link, "failures"),
                    TextOf(link, "reason"), TextOf(link, "problem")});
  }
  return absl::StrCat("\n", AlignedTable(rows));
}

// Empty if the router gives none.
std::string AdviceRows(const Json& fleet) {
  const Json& advice = MemberOf(fleet, "advice");
  if (!advice.is_object()) return "";
  std::vector<std::vector<std::string>> rows = {{"ADVICE", "NEEDED", "READY", "BEST SPLIT", "WHY"}};
  for (const char* role : kRoles) {
    const Json& told = MemberOf(advice, role);
    if (!told.is_object()) continue;
    rows.push_back({role, CountOf(told, "advised"), CountOf(told, "ready"),
                    CountOf(told, "balanced"), TextOf(told, "why")});
  }
  std::string text = AlignedTable(rows);
  if (const Json& one = MemberOf(advice, "colocated"); one.is_object()) {
    absl::StrAppend(
        &text, CountOf(one, "workers"),
        " workers with --disaggregate never would carry this load too, by these rates: ",
        absl::StrFormat("%.0f %%", 100 * NumberOf(one, "prompt_share")),
        " of their time would go to prompts\n");
  }
  return absl::StrCat(text, "\n");
}

std::string EventRows(const Json& fleet, size_t most) {
  const Json& events = MemberOf(fleet, "events");
  std::string text;
  for (size_t i = events.size() - std::min(most, events.size()); i < events.size(); ++i) {
    const absl::Time at = absl::UnixEpoch() + absl::Seconds(NumberOf(events[i], "at"));
    std::vector<std::string> words = {absl::FormatTime("%H:%M:%SZ", at, absl::UTCTimeZone())};
    for (const char* key : {"kind", "worker", "request", "text"}) {
      if (std::string word = TextOf(events[i], key); !word.empty())
        words.push_back(std::move(word));
    }
    absl::StrAppend(&text, absl::StrJoin(words, "  "), "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<Json> ParseFleet(absl::string_view body) {
  Json fleet = Json::parse(body.begin(), body.end(), nullptr, /*allow_exceptions=*/false);
  if (!fleet.is_object() || !IsListOfObjects(MemberOf(fleet, "routers")) ||
      !IsListOfObjects(MemberOf(fleet, "workers")) || !IsListOfObjects(MemberOf(fleet, "events"))) {
    return absl::InvalidArgumentError(
        "the answer does not describe a fleet; check that this is the address of a Baton router");
  }
  return fleet;
}

Json JoinFleets(const std::vector<Json>& fleets) {
  Json joined = fleets.front();
  using WorkerKey = std::pair<std::string, std::string>;  // role and address
  std::map<WorkerKey, size_t> places;
  const auto key_of = [](const Json& worker) {
    return WorkerKey(TextOf(worker, "role"), TextOf(worker, "address"));
  };
  for (const Json& worker : joined["workers"]) places.emplace(key_of(worker), places.size());
  for (size_t i = 1; i < fleets.size(); ++i) {
    const Json& fleet = fleets[i];
    for (const char* key : kSums) AddTo(joined, fleet, key);
    if (joined.contains("advice")) JoinAdvice(MemberOf(fleet, "advice"), joined["advice"]);
    for (const Json& router : fleet["routers"]) joined["routers"].push_back(router);
    JoinLinks(MemberOf(fleet, "links"), joined);
    for (const Json& event : fleet["events"]) joined["events"].push_back(event);
    for (const Json& worker : fleet["workers"]) {
      const auto [place, is_new] = places.emplace(key_of(worker), joined["workers"].size());
      if (is_new) {
        joined["workers"].push_back(worker);
      } else {
        JoinWorker(worker, joined["workers"][place->second]);
      }
    }
  }
  std::stable_sort(
      joined["events"].begin(), joined["events"].end(),
      [](const Json& a, const Json& b) { return NumberOf(a, "at") < NumberOf(b, "at"); });
  return joined;
}

std::string FleetTable(const Json& fleet, size_t events) {
  std::string text = absl::StrCat(
      TextOf(fleet, "model"), ", Baton ", TextOf(fleet, "version"), ": ",
      RateOf(fleet, "tokens_per_second"), " tokens/s, ", RateOf(fleet, "prompt_tokens_per_second"),
      " prompt tokens/s, ", RateOf(fleet, "handoffs_per_second"), " hand-offs/s of ",
      RateOf(fleet, "handoff_bytes_per_second", 1e6), " MB/s\n\n", RouterRows(fleet), "\n",
      AdviceRows(fleet), WorkerRows(fleet), LinkRows(fleet));
  const std::string rows = EventRows(fleet, events);
  return rows.empty() ? text : absl::StrCat(text, "\n", rows);
}

}  // namespace baton
