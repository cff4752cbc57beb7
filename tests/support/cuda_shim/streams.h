// Streams, events and graphs of the CUDA runtime, on the host. What a stream is asked for runs at
// once, or when somebody waits for it; captured, it runs whenever its graph is launched, with the
// arguments it was captured with.
//
// Thread rule: as CUDA's, any thread; what streams run, they run one after the other.
#pragma once

#include <functional>

#include "tests/support/cuda_shim/host_functions.h"

namespace baton::cuda_shim {

// Whether streams (but for the default one) put off what they are asked for until somebody waits
// for it, for all that is asked from here on; not before the first call. Then a result that is read
// too early shows, and memory that is filled anew too early. REQUIRES: no stream has work.
void SetStreamsWait(bool wait);

// Runs `operation` in the order of the stream, or records it while the stream is captured.
void Enqueue(cudaStream_t stream, std::function<void()> operation);
// Runs what all streams have put off.
void RunStreams();
// Whether this thread captures a stream: then it may neither wait for anything nor allocate. Others
// may, so only the mode cudaStreamCaptureModeThreadLocal is known.
bool Capturing();

// Of this process.
int GraphsCaptured();
int GraphLaunches();

}  // namespace baton::cuda_shim
