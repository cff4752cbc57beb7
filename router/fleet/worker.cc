#include "router/fleet/worker.h"

#include <algorithm>

#include "absl/status/statusor.h"

#include "common/base/kv_type_name.h"

namespace baton {

WorkerSnapshot DescribeWorker(const internal::v1::WorkerInfo& info) {
  const internal::v1::KvShape& shape = info.shape();
  WorkerSnapshot worker;
  worker.identity = info.identity().SerializeAsString();
  worker.max_model_len = info.max_model_len();
  worker.block_size = shape.block_size();
  worker.total_blocks = info.total_blocks();
  if (info.role() == internal::v1::WORKER_ROLE_DECODE && worker.total_blocks > 0) {
    // The last token's K and V are never computed.
    const uint64_t stored = uint64_t{worker.total_blocks} * worker.block_size + 1;
    worker.max_model_len = static_cast<uint32_t>(std::min<uint64_t>(worker.max_model_len, stored));
  }
  const absl::StatusOr<KvType> type = KvTypeFromName(shape.dtype());
  // A type that this router does not know is estimated as f16; its workers know it.
  worker.kv_bytes_per_token =
      KvTokenBytes(type.value_or(KvType::kF16), shape.layers(), shape.kv_heads(), shape.head_dim());
  return worker;
}

}  // namespace baton
