// What the decode worker's services know about the worker and its bounds.
#pragma once

#include <cstddef>
#include <string>

#include "baton/internal/v1/common.pb.h"
#include "common/kv/staging.h"
#include "common/rpc/worker_metrics.h"
#include "decode_worker/kv_receiver.h"

namespace baton {

struct DecodeServiceOptions {
  std::string worker_name;
  internal::v1::ModelIdentity identity;
  internal::v1::KvShape shape;
  bool strict_kv_dtype = false;
  KvReceiverLimits limits = {};
  KvStaging* staging =
      nullptr;  // borrowed; of the engine's cache where it is a device's, else null
  size_t max_calls = 1024;
  size_t max_streams = 4096;         // of pushes: several a call
  int max_queued_tokens = 256;       // of one call: more pause the sequence
  WorkerMetrics* metrics = nullptr;  // borrowed; null: nothing is counted
};

}  // namespace baton
