// The result of a plan, as JSON and as a table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/plan/plan_result.h"
#include "client/plan/plan_search.h"
#include "client/plan/step_costs.h"

namespace baton {

struct PlanReport {
  std::string model;      // model whose rates are used
  std::string objective;  // as it was given
  PlanResult result;
  std::optional<FoundFleet> found{};  // where the numbers of workers were looked for
  std::vector<std::string> warnings{};
};

// What a reader of the figures must know, such as that steps were larger than any that was
// measured. A sentence each.
std::vector<std::string> PlanWarnings(const PlanResult& result, const StepCosts& decode);

// One JSON object on several lines; docs/planning.md lists its fields. Those that `baton bench
// serve` has too have its names.
std::string FormatPlanJson(const PlanReport& report);
std::string FormatPlanTable(const PlanReport& report);

}  // namespace baton
