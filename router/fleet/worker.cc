#include "router/fleet/worker.h"

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/protocol/identity.h"

namespace baton {
namespace {

// Far more than any worker has, and far from where sums of them overflow.
constexpr uint32_t kMostTokens = 1 << 28;
constexpr uint32_t kMostSequences = 1 << 20;

// One group if no layer has a window, or where the shape is impossible.
KvLayerGroups GroupsOf(const internal::v1::KvShape& shape) {
  if (shape.layer_states().empty() || !ValidateShape(shape, "shape").ok()) return {};
  std::vector<int> windows;
  for (const internal::v1::LayerState& state : shape.layer_states()) {
    windows.push_back(static_cast<int>(state.window()));
  }
  return KvLayerGroups(windows);
}

}  // namespace

std::string Worker::told_name(bool exposed) const {
  return exposed ? info.name() : absl::StrCat(WorkerRoleName(target.role), "-", id);
}

bool Reaches(const Worker& prefill, const Worker& decode) {
  return prefill.runs_here || !decode.takes_pushes_here_only;
}

bool MayLog(Worker& worker, absl::Time now) {
  if (!worker.log_budget.Take(now)) return false;
  if (const uint64_t left_out = worker.log_budget.TakeLeftOut(); left_out > 0) {
    LogWarning("{} worker '{}' at {}: {} lines about it were left out",
               WorkerRoleName(worker.target.role), LogSafe(worker.info.name()),
               worker.target.address, left_out);
  }
  return true;
}

WorkerSnapshot DescribeWorker(const internal::v1::WorkerInfo& info) {
  const internal::v1::KvShape& shape = info.shape();
  WorkerSnapshot worker;
  // The digests that only routers compare are left out, so that workers of versions with and
  // without them are paired.
  internal::v1::ModelIdentity identity = info.identity();
  identity.clear_metadata_digest();
  identity.clear_sample_digest();
  worker.identity = identity.SerializeAsString();
  worker.max_model_len = std::min(info.max_model_len(), kMostTokens);
  worker.block_size = shape.block_size();
  worker.groups = GroupsOf(shape);
  worker.total_blocks = info.total_blocks();
  if (info.role() == internal::v1::WORKER_ROLE_DECODE && worker.total_blocks > 0) {
    // The last token's K and V are never computed.
    const uint64_t stored = TokensIn(worker, worker.total_blocks) + 1;
    worker.max_model_len = static_cast<uint32_t>(std::min<uint64_t>(worker.max_model_len, stored));
  }
  const absl::StatusOr<KvType> type = KvTypeFromName(shape.dtype());
  // A type that this router does not know is estimated as f16; its workers know it.
  worker.kv_bytes_per_token =
      KvTokenBytes(type.value_or(KvType::kF16), shape.layers(), shape.kv_heads(), shape.head_dim());
  return worker;
}

void TakeLoad(const internal::v1::WorkerLoad& load, WorkerSnapshot& seen) {
  seen.free_blocks =
      seen.total_blocks == 0 ? load.free_blocks() : std::min(load.free_blocks(), seen.total_blocks);
  seen.queued_tokens = std::min(load.waiting_tokens(), kMostTokens);
  seen.reported_sequences = std::min(load.waiting_sequences(), kMostSequences) +
                            std::min(load.running_sequences(), kMostSequences);
  seen.sequences_since = 0;
  seen.prompt_tokens_since = 0;
  seen.tokens_since = 0;
}

}  // namespace baton
