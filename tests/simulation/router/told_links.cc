#include "tests/simulation/router/told_links.h"

#include <utility>

#include "common/rpc/status.h"

namespace baton {
namespace {

// What docs/scheduling.md promises.
constexpr int kTries = 2;
constexpr absl::Duration kRest = absl::Seconds(1);

}  // namespace

void ToldLinks::Handled(const RequestMachine& machine, const Attempt* attempt) {
  Request& request = requests_[machine.spec().id_low];
  const absl::Time now = sim_.queue.time();
  const bool broke = machine.breaks() != std::exchange(request.breaks, machine.breaks());
  if (broke && request.running.has_value() &&
      ErrorReason(machine.last_failure()) == kReasonKvTransferFailed) {
    Failures& failures = request.failures[*request.running];
    ++failures.count;
    failures.last = now;
    if (failures.count == kTries) ++sim_.coverage.spent_links;
  }
  std::optional<Link> link;
  if (attempt != nullptr && !attempt->local() && attempt->has_decode()) {
    link = Link(attempt->workers.prefill->id, attempt->workers.decode->id);
  }
  const uint32_t number = attempt == nullptr ? 0 : attempt->number;
  const bool is_new = link != request.running || number != request.running_attempt;
  request.running = link;
  request.running_attempt = number;
  if (!link.has_value() || !is_new) return;
  const auto failed = request.failures.find(*link);
  if (failed == request.failures.end() || failed->second.count < kTries) return;
  if (sim_.plan.disaggregation != Disaggregation::kAlways || now < failed->second.last + kRest) {
    sim_.Violation("request ", machine.spec().id_low, " tries a link again on which ",
                   failed->second.count, " of its hand-offs have failed");
  }
}

}  // namespace baton
