// The settings that a process that moves KV caches makes before anything else.
#pragma once

namespace baton {

// Raises malloc's thresholds, so that the network's buffers are used again. Otherwise each
// message's buffers would go back to the kernel and come zeroed again, which costs half the rate.
// Also turns on the gRPC experiments that let a read wait for a whole frame of a known message,
// unless the environment sets GRPC_EXPERIMENTS. REQUIRES: the process has one thread and has not
// used gRPC.
void TuneProcessForBulk();

}  // namespace baton
