// Streams, events and graphs of the CUDA runtime, on the host. An operation of a stream runs at
// once, or when somebody waits for it. A captured operation runs whenever its graph is launched,
// with the arguments at the capture.
//
// Thread-safe, as CUDA's functions are. Operations of all streams run one after the other.
#pragma once

#include <functional>

#include "tests/support/cuda_shim/host_functions.h"

namespace baton::cuda_shim {

// Sets whether streams other than the default one delay their later operations until somebody waits
// for them, so that a read of a result shows if it is too early, and so does an overwrite of
// memory. They do not before the first call. REQUIRES: no stream has work.
void SetStreamsWait(bool wait);

// Runs `operation` in the order of the stream, or records it while the stream is captured.
void Enqueue(cudaStream_t stream, std::function<void()> operation);
// Runs the delayed operations of all streams.
void RunStreams();
// Whether this thread captures a stream; it may then neither wait nor allocate. Other threads may,
// since only the mode cudaStreamCaptureModeThreadLocal is supported.
bool Capturing();

// Counts of the whole process.
int GraphsCaptured();
int GraphLaunches();

}  // namespace baton::cuda_shim
