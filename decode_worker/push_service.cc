#include "decode_worker/push_service.h"

#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"

namespace baton {

PushService::PushService(AttemptRegistry& registry, const DecodeServiceOptions& options)
    : registry_(registry),
      max_streams_(options.max_streams),
      refusals_(std::make_shared<PushRefusals>(options.metrics)),
      silent_(options.silent),
      sweeper_([this] { Sweep(); }) {}

PushService::~PushService() {
  stop_.Notify();
  sweeper_.join();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* PushService::Push(
    grpc::CallbackServerContext* context) {
  PushStreamId id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = next_id_++;
  }
  const auto silent_id = std::make_shared<uint64_t>(0);
  const auto stream = std::make_shared<ReceiveStream>(
      context, id,
      ReceiveStream::Callbacks{
          .find =
              [this](const internal::v1::AttemptKey& key,
                     internal::v1::PushRefused::Reason* reason) {
                return registry_.Find(key, reason);
              },
          .heard =
              [this, id, silent_id](std::shared_ptr<ReceiveStream> opened) {
                silent_.Spoke(*silent_id);
                return opened == nullptr ? absl::OkStatus() : Opened(id, std::move(opened));
              },
          .done =
              [streams = streams_, id] {
                std::shared_ptr<ReceiveStream> done;  // destroyed without the lock
                absl::MutexLock lock(&streams->mutex);
                const auto found = streams->open.find(id);
                if (found == streams->open.end()) return;
                done = std::move(found->second);
                streams->open.erase(found);
              }},
      refusals_);
  *silent_id =
      silent_.Add([weak = std::weak_ptr<ReceiveStream>(stream)](const absl::Status& status) {
        if (const auto silent = weak.lock(); silent != nullptr) silent->End(status);
      });
  stream->Start();
  return stream.get();
}

absl::Status PushService::Opened(PushStreamId id, std::shared_ptr<ReceiveStream> stream) {
  absl::MutexLock lock(&streams_->mutex);
  if (streams_->open.size() >= max_streams_) {
    return WorkerFullStatus("too many pushes on this decode worker", "", kStageTransfer);
  }
  streams_->open[id] = std::move(stream);
  return absl::OkStatus();
}

void PushService::Sweep() {
  while (!stop_.WaitFor(absl::Seconds(1))) {
    std::vector<std::shared_ptr<ReceiveStream>> streams;
    {
      absl::MutexLock lock(&streams_->mutex);
      for (const auto& [id, stream] : streams_->open) streams.push_back(stream);
    }
    for (const auto& stream : streams) stream->CancelIfOverdue(SteadyNow());
  }
}

}  // namespace baton
