// Options and bounds of the decode worker's services.
#pragma once

#include <cstddef>
#include <string>

#include "baton/internal/v1/common.pb.h"
#include "common/kv/staging.h"
#include "common/rpc/silent_streams.h"
#include "common/worker/grammar_reader.h"
#include "common/worker/worker_metrics.h"
#include "decode_worker/kv_audit.h"
#include "decode_worker/receive_events.h"

namespace baton {

struct DecodeServiceOptions {
  std::string worker_name;
  internal::v1::ModelIdentity identity;
  internal::v1::KvShape shape;
  bool secure = false;           // whether the server has TLS, so that pushers show certificates
  bool strict_kv_dtype = false;  // value of --strict-kv-dtype
  ReceiveLimits limits = {};
  // Staging of the engine's cache if that is in a device's memory, else null. Borrowed.
  KvStaging* staging = nullptr;
  // Calls at once, and streams of pushes, of which a call may have several. One more is
  // RESOURCE_EXHAUSTED. Those that have not sent a message are not among them.
  size_t max_calls = 1024;
  size_t max_streams = 4096;
  SilentStreams::Limits silent = {};
  int max_queued_tokens = 256;       // waiting tokens of one call at which its sequence pauses
  WorkerMetrics* metrics = nullptr;  // borrowed; null: nothing is counted
  KvAudit* audit = nullptr;          // borrowed; null: no push is audited
  const GrammarReader* grammars = nullptr;  // borrowed; null: requests with a grammar are refused
};

}  // namespace baton
