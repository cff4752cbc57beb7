#include "router/dispatch/queue_forecast.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace baton {
namespace {

constexpr double kWindowSeconds = 2;
constexpr double kWindowRequests = 8;
constexpr double kFull = 0.632;  // 1 - 1/e: what a whole window weighs, older parts weigh less
constexpr double kSurely = 2;

}  // namespace

double DrainRate::SecondsSinceLast(absl::Time now) const {
  const absl::Duration waited = somebody_waits_ ? now - since_ : absl::ZeroDuration();
  return absl::ToDoubleSeconds(waited_before_ + waited);
}

bool DrainRate::known() const {
  // tests/planted_bugs: drain_rate_known
  return seconds_ >= kFull * kWindowSeconds && requests_ >= kFull * kWindowRequests;
}

void DrainRate::SetWaiting(bool somebody_waits, absl::Time now) {
  if (somebody_waits == somebody_waits_) return;
  if (somebody_waits) {
    const double pause = absl::ToDoubleSeconds(now - since_);
    // tests/planted_bugs: drain_rate_pause
    if (pause > kWindowSeconds) {
      *this = DrainRate();
    } else if (pause * requests_ > seconds_) {  // longer than a request takes
      measures_ = false;
      waited_before_ = absl::ZeroDuration();
    }
  } else {
    waited_before_ += now - since_;
  }
  somebody_waits_ = somebody_waits;
  since_ = now;
}

void DrainRate::Left(uint64_t tokens, absl::Time now) {
  if (!somebody_waits_) return;
  const double gap = SecondsSinceLast(now);
  since_ = now;
  waited_before_ = absl::ZeroDuration();
  if (!std::exchange(measures_, true)) return;
  const double keep = std::max(std::exp(-gap / kWindowSeconds), 1 - 1 / kWindowRequests);
  seconds_ = seconds_ * keep + gap;
  tokens_ = tokens_ * keep + static_cast<double>(tokens);
  requests_ = requests_ * keep + 1;
}

std::optional<double> DrainRate::TokensPerSecond(absl::Time now) const {
  if (!known()) return std::nullopt;
  // That the next is on its way says nothing; that it is late does.
  const double late = std::max(0.0, SecondsSinceLast(now) - seconds_ / requests_);
  return tokens_ / (seconds_ + late);
}

absl::Duration DrainRate::UntilNext(absl::Time now) const {
  if (!known()) return absl::ZeroDuration();
  return absl::Seconds(std::max(0.0, seconds_ / requests_ - SecondsSinceLast(now)));
}

void Backlog::Add(int32_t priority, const Sharer& sharer, uint64_t tokens) {
  Level& level = levels_[priority];
  Users& tenant = level.tenants[sharer.tenant];
  for (uint64_t* sum : {&tokens_, &level.tokens, &tenant.tokens, &tenant.users[sharer.user]}) {
    *sum += tokens;
  }
}

void Backlog::Remove(int32_t priority, const Sharer& sharer, uint64_t tokens) {
  const auto level = levels_.find(priority);
  const auto tenant = level->second.tenants.find(sharer.tenant);
  const auto user = tenant->second.users.find(sharer.user);
  for (uint64_t* sum : {&tokens_, &level->second.tokens, &tenant->second.tokens, &user->second}) {
    *sum -= tokens;
  }
  if (user->second == 0) tenant->second.users.erase(user);
  if (tenant->second.tokens == 0) level->second.tenants.erase(tenant);
  if (level->second.tokens == 0) levels_.erase(level);
}

uint64_t Backlog::Ahead(int32_t priority, const Sharer& sharer, uint64_t tokens) const {
  uint64_t ahead = 0, own = 0;  // own: of the tenant, with the request itself
  for (const auto& [level_priority, level] : levels_) {
    if (level_priority > priority) break;
    if (level_priority < priority) {
      ahead += level.tokens;
      continue;
    }
    if (const auto tenant = level.tenants.find(sharer.tenant); tenant != level.tenants.end()) {
      const std::map<std::string, uint64_t>& users = tenant->second.users;
      const auto user = users.find(sharer.user);
      const uint64_t of_user = user == users.end() ? 0 : user->second;
      for (const auto& [other, waiting] : users) {
        own += other == sharer.user ? waiting : std::min(waiting, of_user + tokens);
      }
    }
    for (const auto& [other, waiting] : level.tenants) {
      ahead += other == sharer.tenant ? own : std::min(waiting.tokens, own + tokens);
    }
  }
  return ahead;
}

std::vector<uint64_t> WhoIsTooLate(
    const FairQueue& queue, std::optional<double> tokens_per_second,
    absl::FunctionRef<absl::Duration(const FairQueue::Entry&)> time_left) {
  std::vector<uint64_t> late;
  double ahead = 0;  // tokens
  queue.ForEachInOrder([&](const FairQueue::Entry& entry) {
    const absl::Duration wait = tokens_per_second.has_value()
                                    ? absl::Seconds(ahead / *tokens_per_second / kSurely)
                                    : absl::ZeroDuration();
    const absl::Duration left = time_left(entry);
    if (left <= absl::ZeroDuration() || wait > left) {
      late.push_back(entry.number);
      return false;
    }
    ahead += static_cast<double>(entry.tokens);
    return true;
  });
  return late;
}

}  // namespace baton
