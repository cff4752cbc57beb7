// `baton plan` says what a fleet would do with a load, and how large it must be, without running
// it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "bench/serve/load_source.h"
#include "client/plan/plan_report.h"
#include "client/plan/planned_fleet.h"
#include "common/flags/command.h"

namespace baton {

struct PlanOptions {
  std::string rates;         // file of what `baton bench engine --json` printed
  std::string decode_rates;  // the same of decode workers; empty: `rates`
  LoadClass load;
  TraceOptions trace;
  absl::Duration duration = absl::Seconds(60);  // how long requests come at a rate
  int seed = 1;
  int prefill_workers = 0, decode_workers = 0;  // 0: to be found
  std::string objective;                        // in the form of ParseLoadObjective
  double good_share = 0.99;                     // least share of good requests
  std::string disaggregate = "auto";
  PlacementPolicy policy = PlacementPolicy::kPrefixAware;
  int max_num_seqs = 64;
  uint64_t kv_cache_memory_bytes = uint64_t{1} << 30;
  uint64_t link_bytes_per_s = 2'000'000'000;
  absl::Duration request_overhead = absl::Milliseconds(3);
  absl::Duration max_queue_time = absl::Seconds(10);
  bool json = false;
};

// Prints a table, or JSON, on stdout. The exit code: 0; 1 if no fleet keeps the objective, and 2
// for wrong flags or files, each with one line on stderr.
class PlanCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  void AddFleetFlags(FlagSet& flags);

  PlanOptions options_;
};

// The whole plan. OUT_OF_RANGE: no fleet keeps the objective. Other errors name the flag or the
// file.
absl::StatusOr<PlanReport> MakePlan(const PlanOptions& options);

}  // namespace baton
