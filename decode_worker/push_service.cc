#include "decode_worker/push_service.h"

#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/refused_call.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using RefusedPush = RefusedCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>;

}  // namespace

PushService::PushService(AttemptRegistry& registry, size_t max_streams)
    : registry_(registry), max_streams_(max_streams), sweeper_([this] { Sweep(); }) {}

PushService::~PushService() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  sweeper_.join();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* PushService::Push(
    grpc::CallbackServerContext* context) {
  PushStreamId id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = next_id_++;
  }
  const auto stream = std::make_shared<ReceiveStream>(
      context, id,
      ReceiveStream::Callbacks{
          .find =
              [this](const internal::v1::AttemptKey& key,
                     internal::v1::PushRefused::Reason* reason) {
                return registry_.Find(key, reason);
              },
          .done =
              [streams = streams_, id] {
                std::shared_ptr<ReceiveStream> done;  // destroyed without the lock
                absl::MutexLock lock(&streams->mutex);
                const auto found = streams->open.find(id);
                if (found == streams->open.end()) return;
                done = std::move(found->second);
                streams->open.erase(found);
              }});
  {
    absl::MutexLock lock(&streams_->mutex);
    if (streams_->open.size() >= max_streams_)
      return new RefusedPush(
          WorkerFullStatus("too many pushes on this decode worker", "", kStageTransfer));
    streams_->open[id] = stream;
  }
  stream->Start();
  return stream.get();
}

void PushService::Sweep() {
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&stop_), absl::Seconds(1))) {
    std::vector<std::shared_ptr<ReceiveStream>> streams;
    {
      absl::MutexLock streams_lock(&streams_->mutex);
      for (const auto& [id, stream] : streams_->open) streams.push_back(stream);
    }
    for (const auto& stream : streams) stream->CancelIfOverdue(SteadyNow());
  }
}

}  // namespace baton
