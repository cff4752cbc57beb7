#include "tests/support/cuda_shim/streams.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

using Operation = std::function<void()>;

struct CUstream_st {
  uint64_t id = 0;
  std::deque<Operation> waiting;
  uint64_t enqueued = 0;
  uint64_t done = 0;
  bool capturing = false;
  std::vector<Operation> captured;
};
struct CUevent_st {
  std::chrono::steady_clock::time_point recorded;
  uint64_t stream = 0;
  uint64_t place = 0;  // number of the stream's operations after which the event has happened
};
struct CUgraph_st {
  std::vector<Operation> operations;
};
struct CUgraphExec_st {
  std::vector<Operation> operations;
};

namespace baton::cuda_shim {
namespace {

// The mutex is recursive because an operation may wait for another stream.
std::recursive_mutex mutex;  // guards what follows
bool streams_wait = false;
uint64_t last_stream = 0;
thread_local int capturing = 0;  // number of streams that this thread captures
int graphs_captured = 0;
int graph_launches = 0;
std::map<uint64_t, cudaStream_t>& Streams() {
  static std::map<uint64_t, cudaStream_t> streams;
  return streams;
}

void RunUntil(cudaStream_t stream, uint64_t place) {
  while (stream->done < place && !stream->waiting.empty()) {
    const Operation operation = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    operation();
    ++stream->done;
  }
}

void RunUntil(const CUevent_st& event) {
  const auto found = Streams().find(event.stream);
  if (found != Streams().end()) RunUntil(found->second, event.place);
}

}  // namespace

void SetStreamsWait(bool wait) {
  const std::lock_guard lock(mutex);
  streams_wait = wait;
}

void Enqueue(cudaStream_t stream, Operation operation) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr) {
    RunStreams();
    operation();
  } else if (stream->capturing) {
    stream->captured.push_back(std::move(operation));
  } else {
    ++stream->enqueued;
    stream->waiting.push_back(std::move(operation));
    if (!streams_wait) RunUntil(stream, stream->enqueued);
  }
}

void RunStreams() {
  const std::lock_guard lock(mutex);
  for (const auto& [id, stream] : Streams()) RunUntil(stream, stream->enqueued);
}

bool Capturing() { return capturing > 0; }
int GraphsCaptured() {
  const std::lock_guard lock(mutex);
  return graphs_captured;
}
int GraphLaunches() {
  const std::lock_guard lock(mutex);
  return graph_launches;
}

}  // namespace baton::cuda_shim

using namespace baton::cuda_shim;

cudaError_t cudaDeviceSynchronize() {
  if (Capturing()) return cudaErrorStreamCaptureUnsupported;
  RunStreams();
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const std::lock_guard lock(mutex);
  *stream = new CUstream_st;
  (*stream)->id = ++last_stream;
  Streams()[last_stream] = *stream;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return cudaStreamCreate(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  RunUntil(stream, stream->enqueued);
  Streams().erase(stream->id);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (Capturing()) return cudaErrorStreamCaptureUnsupported;
  if (stream != nullptr) RunUntil(stream, stream->enqueued);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data) {
  Enqueue(stream, [function, data] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (stream != nullptr && stream->capturing) return cudaErrorStreamCaptureUnsupported;
  event->recorded = std::chrono::steady_clock::now();
  event->stream = stream == nullptr ? 0 : stream->id;
  event->place = stream == nullptr ? 0 : stream->enqueued;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  if (Capturing()) return cudaErrorStreamCaptureUnsupported;
  RunUntil(*event);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::chrono::duration<float, std::milli> elapsed = end->recorded - start->recorded;
  *milliseconds = elapsed.count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const CUevent_st waited = *event;
  Enqueue(stream, [waited] { RunUntil(waited); });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr || stream->capturing) return cudaErrorStreamCaptureUnsupported;
  if (mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;
  stream->capturing = true;
  ++capturing;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex);
  if (!stream->capturing || capturing == 0) return cudaErrorInvalidValue;
  stream->capturing = false;
  --capturing;
  ++graphs_captured;
  *graph = new CUgraph_st{std::move(stream->captured)};
  stream->captured.clear();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (!baton::cuda_shim::TheMachine().graphs_fit) return cudaErrorMemoryAllocation;
  *exec = new CUgraphExec_st{graph->operations};
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  RunStreams();
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  ++graph_launches;
  Enqueue(stream, [exec] {
    for (const Operation& operation : exec->operations) operation();
  });
  return cudaSuccess;
}
