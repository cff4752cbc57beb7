#include "client/doctor/clock_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "client/certs/authority_folder.h"

namespace baton {
namespace {

constexpr absl::Duration kWorthAWarning = absl::Seconds(2);
constexpr absl::Duration kMostUnsteady = absl::Milliseconds(500);
constexpr char kSynchronise[] = "synchronise both clocks (chrony, systemd-timesyncd)";

}  // namespace

Findings ClockFindings(const ClockFacts& facts) {
  // The server's clock minus this one lies between these two.
  const absl::Duration least = facts.told - facts.after;
  const absl::Duration most = facts.told + facts.rounding - facts.before;
  absl::Duration sure;  // by how much they differ at least
  if (least > absl::ZeroDuration()) sure = least;
  if (most < absl::ZeroDuration()) sure = -most;
  Finding offset{.check = "clock.offset", .subject = facts.server};
  offset.found =
      absl::StrCat("the server's clock minus this one is between ",
                   absl::FormatDuration(absl::Trunc(least, absl::Milliseconds(1))), " and ",
                   absl::FormatDuration(absl::Trunc(most, absl::Milliseconds(1))));
  if (sure > kBackdated) {
    offset.verdict = Verdict::kFailed;
    offset.remedy = absl::StrCat(kSynchronise, ": new certificates count as not yet valid");
  } else if (sure > kWorthAWarning) {
    offset.verdict = Verdict::kWarning;
    offset.remedy = absl::StrCat(kSynchronise, ": logs of the fleet cannot be laid side by side");
  }
  const absl::Duration drift = facts.after - facts.before - facts.elapsed;
  Finding steady{.check = "clock.steady", .found = "the clock ran evenly while a server was asked"};
  if (std::max(drift, -drift) > kMostUnsteady) {
    steady.verdict = Verdict::kWarning;
    steady.found = absl::StrCat("the clock was set by ",
                                absl::FormatDuration(absl::Trunc(drift, absl::Milliseconds(1))),
                                " while a server was asked");
    steady.remedy = "let one service set the clock, by slewing it";
  }
  return {offset, steady};
}

}  // namespace baton
