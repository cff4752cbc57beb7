// The settings for processes that move KV caches.
#pragma once

namespace baton {

// Raises malloc's thresholds, so that buffers of the network are reused. Otherwise the buffers of
// each message would go back to the kernel and come back zeroed, which costs half the rate. Also
// turns on the gRPC experiments that let a read wait for a whole frame, unless the environment sets
// GRPC_EXPERIMENTS. REQUIRES: the process has one thread and has not used gRPC.
void TuneProcessForBulk();

}  // namespace baton
