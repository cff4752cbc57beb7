#include "common/worker/load_times.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/base/log.h"

namespace baton {
namespace {

constexpr absl::Duration kShortest = absl::Milliseconds(50);

std::string Seconds(absl::Duration time) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(time));
}

}  // namespace

void LoadTimes::Took(std::string stage) {
  const absl::Time now = SteadyNow();
  stages_.emplace_back(std::move(stage), now - last_);
  last_ = now;
}

std::string LoadTimes::Text() const { return LoadTimesText(stages_); }

void LoadTimes::Log() const {
  absl::Duration all;
  for (const auto& [stage, time] : stages_) all += time;
  if (all >= absl::Seconds(1)) LogInfo("the model is loaded after {}", Text());
}

std::string LoadTimesText(const std::vector<std::pair<std::string, absl::Duration>>& stages) {
  absl::Duration all;
  std::vector<std::string> long_ones;
  for (const auto& [stage, time] : stages) {
    all += time;
    if (time >= kShortest) long_ones.push_back(absl::StrCat(stage, " ", Seconds(time)));
  }
  return absl::StrCat(Seconds(all), long_ones.empty() ? "" : ": ", absl::StrJoin(long_ones, ", "));
}

}  // namespace baton
