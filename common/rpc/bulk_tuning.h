// What a process that moves KV caches sets for itself before anything else.
#pragma once

namespace baton {

// Raises malloc's thresholds, so that the network's buffers are used again instead of going back to
// the kernel and coming zeroed for every message (that costs half the rate), and turns on the
// experiments of gRPC that let a read wait for a whole frame of a known message. A GRPC_EXPERIMENTS
// in the environment is left as it is. REQUIRES: one thread, gRPC not used yet.
void TuneProcessForBulk();

}  // namespace baton
