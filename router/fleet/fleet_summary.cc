#include "router/fleet/fleet_summary.h"

#include <algorithm>
#include <cstdint>
#include <map>
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

namespace {

// Which workers of one model are ready.
struct ReadyOfModel {
  bool prefill_here = false;  // on the router's machine
  bool prefill_elsewhere = false;
  bool decode_for_all = false;   // prefill workers on every machine reach it
  bool decode_for_here = false;  // only those on the router's machine do

  void Add(const Worker& worker) {
    if (worker.target.role == WORKER_ROLE_PREFILL) {
      (worker.runs_here ? prefill_here : prefill_elsewhere) = true;
    } else {
      (worker.takes_pushes_here_only ? decode_for_here : decode_for_all) = true;
    }
  }
  bool has_both() const {
    return (prefill_here || prefill_elsewhere) && (decode_for_all || decode_for_here);
  }
  bool has_pair() const { return has_both() && (prefill_here || decode_for_all); }
};

}  // namespace

FleetSummary Summarize(const WorkersByTarget& workers, Fleet& fleet, bool expose_workers) {
  FleetSummary summary;
  std::map<std::string, ReadyOfModel> models;  // by identity
  std::set<std::string> kv_types, weights_types;
  std::vector<const Worker*> unready;
  for (const auto& [target, worker] : workers) {
    if (!worker->spare_of.empty()) continue;
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
    models[worker->seen.identity].Add(*worker);
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
  for (const auto& [identity, ready] : models) {
    summary.has_same_model |= ready.has_both();
    summary.has_pair |= ready.has_pair();
  }
  summary.ready_identities = static_cast<uint32_t>(models.size());
  summary.kv_cache_dtype = absl::StrJoin(kv_types, ", ");
  summary.weights_type = absl::StrJoin(weights_types, ", ");
  summary.longest_of_pairs = fleet.ready().longest_of_pairs();
  summary.longest_of_decode = fleet.ready().longest_of_decode();
  return summary;
}

}  // namespace baton
