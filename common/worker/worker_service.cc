#include "common/worker/worker_service.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/version.h"
#include "common/rpc/limits.h"
#include "common/rpc/refused_call.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using internal::v1::WatchResponse;

uint32_t Unsigned(int64_t value) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, UINT32_MAX));
}

absl::Status Closed() {
  return WithErrorInfo(
      WithRetryInfo(absl::UnavailableError("the worker is ending"), absl::Seconds(1)),
      {.reason = kReasonDraining});
}

using RefusedWatch = RefusedCall<grpc::ServerWriteReactor<WatchResponse>>;

}  // namespace

// One Watch stream. A slow reader gets the newest snapshot when it is ready again, never a backlog.
class WorkerService::Watcher final : public grpc::ServerWriteReactor<WatchResponse> {
 public:
  Watcher(WorkerService& service, std::shared_ptr<const grpc::AuthContext> peer)
      : service_(service), peer_(std::move(peer)) {}

  const grpc::AuthContext& peer() const { return *peer_; }

  void Post(const WatchResponse& snapshot) {
    absl::MutexLock lock(&mutex_);
    if (ending_) return;
    pending_ = snapshot;
    if (!writing_) Write();
  }

  void End(const grpc::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (ending_) return;
    ending_ = true;
    status_ = status;
    pending_.reset();
    if (!writing_) Finish(status_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok && !ending_) {
      ending_ = true;
      status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the watcher went away");
    }
    if (ending_) {
      Finish(status_);
    } else if (pending_ || more_pages_) {
      Write();
    }
  }
  void OnCancel() override {
    End(grpc::Status(grpc::StatusCode::CANCELLED, "the watcher went away"));
  }
  void OnDone() override {
    service_.Remove(this);
    delete this;
  }

 private:
  // Writes the newest snapshot. Without one it writes the last snapshot again, with further pages.
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (pending_) {
      message_ = *std::move(pending_);
      pending_.reset();
    } else {
      message_.clear_info();
    }
    if (first_) *message_.mutable_info() = service_.info_;
    first_ = false;
    AddPages();
    writing_ = true;
    StartWrite(&message_);
  }

  void AddPages() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    message_.clear_prefix();
    if (service_.pages_ == nullptr) return;
    const PrefixPages::Changes changes = service_.pages_->Read(position_, kMaxPrefixPages);
    more_pages_ = changes.more;
    if (changes.empty()) return;
    internal::v1::PrefixDelta& delta = *message_.mutable_prefix();
    delta.set_version(++version_);
    delta.set_full(changes.full);
    delta.mutable_added()->Add(changes.added.begin(), changes.added.end());
    delta.mutable_removed()->Add(changes.removed.begin(), changes.removed.end());
  }

  WorkerService& service_;
  const std::shared_ptr<const grpc::AuthContext> peer_;
  absl::Mutex mutex_;
  WatchResponse message_;  // belongs to gRPC while writing_
  std::optional<WatchResponse> pending_ ABSL_GUARDED_BY(mutex_);
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  PrefixPages::Position position_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;  // number of the last message about pages
  bool more_pages_ ABSL_GUARDED_BY(mutex_) = false;
  bool first_ ABSL_GUARDED_BY(mutex_) = true;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

internal::v1::WorkerInfo MakeWorkerInfo(internal::v1::WorkerRole role, const std::string& name,
                                        const internal::v1::ModelIdentity& identity,
                                        const internal::v1::KvShape& shape) {
  internal::v1::WorkerInfo info;
  info.set_role(role);
  info.set_name(name);
  info.set_incarnation(RandomUint64());
  *info.mutable_identity() = identity;
  *info.mutable_shape() = shape;
  info.set_version(Version());
  return info;
}

WatchResponse WatchFromStats(ServerState state, const EngineStats& stats) {
  WatchResponse response;
  switch (state) {
    case ServerState::kStarting:
      response.set_state(internal::v1::WORKER_STATE_STARTING);
      break;
    case ServerState::kReady:
      response.set_state(internal::v1::WORKER_STATE_READY);
      break;
    case ServerState::kDraining:
      response.set_state(internal::v1::WORKER_STATE_DRAINING);
      break;
  }
  response.set_progress(stats.progress);
  response.set_runnable_sequences(Unsigned(stats.runnable_sequences));
  internal::v1::WorkerLoad& load = *response.mutable_load();
  load.set_waiting_sequences(Unsigned(stats.waiting_sequences));
  load.set_running_sequences(Unsigned(stats.running_sequences));
  load.set_waiting_tokens(Unsigned(stats.waiting_tokens));
  load.set_free_blocks(Unsigned(stats.free_blocks));
  load.set_cached_blocks(Unsigned(stats.cached_blocks));
  return response;
}

WorkerService::WorkerService(internal::v1::WorkerInfo info, std::function<WatchResponse()> snapshot,
                             Credentials credentials, const PrefixPages* pages)
    : info_(std::move(info)),
      snapshot_(std::move(snapshot)),
      credentials_(std::move(credentials)),
      pages_(pages),
      addressed_(!info_.address().empty()),
      thread_([this] { Loop(); }) {
  Add("Watch", &WorkerService::Watch);
}

WorkerService::~WorkerService() {
  Close();
  thread_.join();
  absl::MutexLock lock(&mutex_);
  BATON_CHECK(watchers_.empty(), "the server is shut down before its services end");
}

grpc::ServerWriteReactor<WatchResponse>* WorkerService::Watch(
    grpc::CallbackServerContext* context, const Received<internal::v1::WatchRequest>* request) {
  if (!request->status.ok()) return new RefusedWatch(request->status);
  absl::MutexLock lock(&mutex_);
  if (closed_) return new RefusedWatch(Closed());
  if (watchers_.size() >= static_cast<size_t>(kMaxWatchers)) {
    return new RefusedWatch(
        WithRetryInfo(absl::ResourceExhaustedError("too many watchers"), absl::Seconds(5)));
  }
  auto* watcher = new Watcher(*this, context->auth_context());
  watchers_.push_back(watcher);
  changed_ = true;
  return watcher;
}

void WorkerService::SetAddress(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  BATON_CHECK(!addressed_, "watchers know an address already");
  info_.set_address(address);
  addressed_ = changed_ = true;
}

void WorkerService::StateChanged() {
  absl::MutexLock lock(&mutex_);
  changed_ = true;
}

void WorkerService::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  const grpc::Status status = ToGrpcStatus(Closed());
  for (Watcher* watcher : watchers_) watcher->End(status);
}

int WorkerService::watchers() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(watchers_.size());
}

void WorkerService::Loop() {
  const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return changed_ || closed_; };
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&awake), kWatchInterval);
      if (closed_) return;
      changed_ = false;
      if (watchers_.empty() || !addressed_) continue;
    }
    const WatchResponse snapshot = snapshot_();
    absl::MutexLock lock(&mutex_);
    for (Watcher* watcher : watchers_) {
      const absl::Status trusted = credentials_.CheckPeer(watcher->peer());
      if (trusted.ok()) {
        watcher->Post(snapshot);
      } else {
        watcher->End(ToGrpcStatus(trusted));
      }
    }
  }
}

void WorkerService::Remove(Watcher* watcher) {
  absl::MutexLock lock(&mutex_);
  watchers_.erase(std::remove(watchers_.begin(), watchers_.end(), watcher), watchers_.end());
}

}  // namespace baton
