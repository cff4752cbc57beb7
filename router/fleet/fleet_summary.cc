#include "router/fleet/fleet_summary.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/log.h"
#include "router/fleet/worker_names.h"

namespace baton {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

FleetSummary Summarize(const WorkersByTarget& workers, Fleet& fleet, bool expose_workers) {
  FleetSummary summary;
  std::set<std::string> models[2];  // identities of ready prefill and decode workers
  std::set<std::string> identities, kv_types, weights_types;
  std::vector<const Worker*> unready;
  for (const auto& [target, worker] : workers) {
    if (worker->id != 0 && !worker->problem.empty()) {
      summary.problem = absl::StrCat("worker '", LogSafe(worker->told_name(expose_workers)), "' ",
                                     LogSafe(worker->problem));
    }
    if (worker->id != 0 && !worker->quarantined_by.empty()) {
      summary.problem =
          absl::StrCat("worker '", LogSafe(worker->told_name(expose_workers)), "' is quarantined");
    }
    if (!worker->ready()) {
      unready.push_back(worker.get());
      continue;
    }
    ++(target.role == WORKER_ROLE_PREFILL ? summary.ready_prefill : summary.ready_decode);
    models[target.role == WORKER_ROLE_DECODE].insert(worker->seen.identity);
    identities.insert(worker->seen.identity);
    const uint32_t length = worker->seen.max_model_len;
    summary.max_model_len =
        summary.max_model_len == 0 ? length : std::min(summary.max_model_len, length);
    if (target.role == WORKER_ROLE_DECODE) {
      const internal::v1::KvShape& shape = worker->info.shape();
      kv_types.insert(shape.dtype());
      if (const std::string& type = worker->info.weights_type(); !type.empty()) {
        weights_types.insert(type);
      }
      summary.block_size = summary.block_size == 0
                               ? shape.block_size()
                               : std::min(summary.block_size, shape.block_size());
    }
  }
  summary.all_ready = !workers.empty() && AreOfDeadFamilies(unready, workers);
  summary.has_pair = std::any_of(models[0].begin(), models[0].end(),
                                 [&](const auto& model) { return models[1].count(model) != 0; });
  summary.ready_identities = static_cast<uint32_t>(identities.size());
  summary.kv_cache_dtype = absl::StrJoin(kv_types, ", ");
  summary.weights_type = absl::StrJoin(weights_types, ", ");
  summary.longest_of_pairs = fleet.ready().longest_of_pairs();
  summary.longest_of_decode = fleet.ready().longest_of_decode();
  return summary;
}

}  // namespace baton
