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
      absl::StrCat("the server's clock minus this machine's clock is between ",
                   absl::FormatDuration(absl::Trunc(least, absl::Milliseconds(1))), " and ",
                   absl::FormatDuration(absl::Trunc(most, absl::Milliseconds(1))));
  if (sure > kBackdated) {
    offset.verdict = Verdict::kFailed;
    offset.remedy =
        absl::StrCat(kSynchronise, "; until then new certificates are rejected as not yet valid");
  } else if (sure > kWorthAWarning) {
    offset.verdict = Verdict::kWarning;
    offset.remedy =
        absl::StrCat(kSynchronise, "; until then times in the fleet's logs cannot be compared");
  }
  const absl::Duration drift = facts.after - facts.before - facts.elapsed;
  Finding steady{.check = "clock.steady",
                 .found = "this machine's clock was not set during the check"};
  if (std::max(drift, -drift) > kMostUnsteady) {
    steady.verdict = Verdict::kWarning;
    steady.found = absl::StrCat("this machine's clock was set by ",
                                absl::FormatDuration(absl::Trunc(drift, absl::Milliseconds(1))),
                                " during the check");
    steady.remedy = "let a single time service adjust the clock gradually (slewing)";
  }
  return {offset, steady};
}

}  // namespace baton
