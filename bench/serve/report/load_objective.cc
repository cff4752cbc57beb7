#include "bench/serve/report/load_objective.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "bench/serve/report/percentile.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_value.h"

namespace baton {
namespace {

absl::StatusOr<LoadLimit> LimitOf(absl::string_view name) {
  LoadLimit limit{.name = std::string(name)};
  constexpr std::pair<absl::string_view, LimitedTime> kTimes[] = {{"ttft", LimitedTime::kTtft},
                                                                  {"itl", LimitedTime::kItl},
                                                                  {"tpot", LimitedTime::kTpot},
                                                                  {"e2e", LimitedTime::kE2e}};
  for (const auto& [known, time] : kTimes) {
    if (name != known) continue;
    limit.time = time;
    return limit;
  }
  if (absl::StartsWith(name, "itl_p")) {
    limit.time = LimitedTime::kItl;
    const absl::StatusOr<int> percent = ParseInt(name.substr(5), 1, 99);
    if (percent.ok()) {
      limit.percent = *percent;
      return limit;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--objective: '", name, "' is not one of ttft, itl, itl_p1 to itl_p99, tpot, e2e"));
}

int64_t TimeOf(const LoadRecord& record, const LoadLimit& limit) {
  switch (limit.time) {
    case LimitedTime::kTtft:
      return record.messages.front().at_ns - record.intended_ns;
    case LimitedTime::kTpot:
      return TpotNanoseconds(record);
    case LimitedTime::kE2e:
      return record.end_ns - record.intended_ns;
    case LimitedTime::kItl:
      break;
  }
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < record.messages.size(); ++i) {
    gaps.push_back(record.messages[i].at_ns - record.messages[i - 1].at_ns);
  }
  return Percentile(std::move(gaps), limit.percent);  // 0 without gaps
}

}  // namespace

absl::StatusOr<LoadObjective> ParseLoadObjective(const std::string& text) {
  LoadObjective objective;
  for (absl::string_view field : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    BATON_ASSIGN_OR_RETURN(LoadLimit limit, LimitOf(pair.first));
    const absl::StatusOr<absl::Duration> most = ParseDurationValue(pair.second);
    if (!most.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--objective: ", field, ": ", most.status().message()));
    }
    limit.most_ns = absl::ToInt64Nanoseconds(*most);
    objective.push_back(std::move(limit));
  }
  return objective;
}

int64_t TpotNanoseconds(const LoadRecord& record) {
  const auto tokens = static_cast<int64_t>(record.output_tokens());
  if (record.messages.size() < 2 || tokens < 2) return 0;
  const int64_t after_first = tokens - 1;
  const int64_t span = record.messages.back().at_ns - record.messages.front().at_ns;
  return (2 * span + after_first) / (2 * after_first);
}

bool Keeps(const LoadRecord& record, const LoadObjective& objective) {
  return std::all_of(objective.begin(), objective.end(), [&](const LoadLimit& limit) {
    return TimeOf(record, limit) <= limit.most_ns;
  });
}

}  // namespace baton
