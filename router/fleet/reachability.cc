#include "router/fleet/reachability.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {

std::array<absl::Time, kUnreachableKinds> Reachability::NeverLogged() {
  std::array<absl::Time, kUnreachableKinds> never{};
  never.fill(absl::InfinitePast());
  return never;
}

void Reachability::Opened(absl::Time now) {
  opened_ = now;
  unreached_since_ = std::min(unreached_since_, now);
}

void Reachability::Ended(UnreachableReason reason, absl::Time now) {
  opened_ = absl::InfiniteFuture();
  unreached_since_ = std::min(unreached_since_, now);
  why_ = std::move(reason);
}

void Reachability::Heard() {
  if (unreached_since_ == absl::InfiniteFuture()) return;
  opened_ = unreached_since_ = absl::InfiniteFuture();
  why_ = {};
  last_logged_.reset();
  logged_ = NeverLogged();
}

void Reachability::Refused(std::string why, absl::Time now) {
  refusal_ = std::move(why);
  refusal_logged_ = now;
}

std::optional<std::string> Reachability::TakeLine(absl::Time now) {
  if (unreached_since_ == absl::InfiniteFuture()) return TakeRefusal(now);
  if (now - opened_ >= kSilentAfter) why_ = ExplainSilent();
  if (why_.text.empty() || now - unreached_since_ < kGrace) return std::nullopt;
  absl::Time& logged = logged_[static_cast<size_t>(why_.kind)];
  const bool changed = last_logged_ != why_.kind;
  if (now - logged < (changed ? kReturnAfter : kRepeatAfter)) return std::nullopt;
  logged = now;
  last_logged_ = why_.kind;
  return absl::StrCat("is not reached: ", why_.text);
}

std::optional<std::string> Reachability::TakeRefusal(absl::Time now) {
  if (refusal_.empty() || now - refusal_logged_ < kRepeatAfter) return std::nullopt;
  refusal_logged_ = now;
  return absl::StrCat("is still not used: it ", refusal_);
}

}  // namespace baton
