#include "common/worker/worker_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/version.h"
#include "common/net/access_check.h"
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
      WithRetryInfo(absl::UnavailableError("the worker is shutting down"), absl::Seconds(1)),
      {.reason = kReasonDraining});
}

// Who watches: the name in the certificate, which replicas of a router share, or without TLS the
// address.
std::string PeerName(const grpc::CallbackServerContext& context) {
  const std::optional<Peer> peer = PeerOf(context);
  if (peer.has_value()) return absl::StrCat(peer->trust_domain, "/", peer->name);
  const std::string address = context.peer();  // such as ipv4:127.0.0.1:1234
  return address.substr(0, address.rfind(':'));
}

absl::Status TooManyWatchers(absl::string_view of_whom) {
  return WithRetryInfo(absl::ResourceExhaustedError(absl::StrCat("too many watchers", of_whom)),
                       absl::Seconds(5));
}

using RefusedWatch = RefusedCall<grpc::ServerWriteReactor<WatchResponse>>;

}  // namespace

// One Watch stream. A slow reader gets the newest snapshot when it is ready again, never a backlog.
class WorkerService::Watcher final : public grpc::ServerWriteReactor<WatchResponse> {
 public:
  Watcher(WorkerService& service, grpc::CallbackServerContext& context, std::string peer,
          std::string router)
      : service_(service), context_(context), peer_(std::move(peer)), router_(std::move(router)) {}

  std::shared_ptr<const grpc::AuthContext> connection() const { return context_.auth_context(); }
  const std::string& peer() const { return peer_; }
  const std::string& router() const { return router_; }

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

  // The router has a newer stream. A router that does not read what is being written does not learn
  // of it. The second time, the stream ends without a status.
  void Supersede() {
    if (ending()) return context_.TryCancel();
    End(ToGrpcStatus(WithErrorInfo(absl::AbortedError("the router has opened a newer Watch stream"),
                                   {.reason = kReasonSuperseded})));
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

  bool ending() {
    absl::MutexLock lock(&mutex_);
    return ending_;
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
  grpc::CallbackServerContext& context_;
  const std::string peer_;
  const std::string router_;  // empty: the router gave none
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
  load.set_generated_tokens(stats.generated_tokens);
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
    grpc::CallbackServerContext* context,
    std::unique_ptr<Received<internal::v1::WatchRequest>> request) {
  if (!request->status.ok()) return new RefusedWatch(request->status);
  const std::string& router = request->message.router();
  if (!router.empty() && router.size() != kWatchingRouterBytes) {
    return new RefusedWatch(InvalidField(
        "router",
        absl::StrCat("must have ", kWatchingRouterBytes, " bytes or none, has ", router.size())));
  }
  const std::string peer = PeerName(*context);
  absl::MutexLock lock(&mutex_);
  if (closed_) return new RefusedWatch(Closed());
  if (absl::Status place = TakePlace(peer, router); !place.ok()) return new RefusedWatch(place);
  auto* watcher = new Watcher(*this, *context, peer, router);
  watchers_.push_back(watcher);
  changed_ = true;
  awake_.NotifyOne();
  return watcher;
}

absl::Status WorkerService::TakePlace(const std::string& peer, const std::string& router) {
  int of_all = 0, of_peer = 0;  // without those that end now
  for (Watcher* watcher : watchers_) {
    if (!router.empty() && watcher->peer() == peer && watcher->router() == router) {
      watcher->Supersede();
      continue;
    }
    ++of_all;
    if (watcher->peer() == peer) ++of_peer;
  }
  if (of_peer >= kMaxWatchersOfPeer) return TooManyWatchers(" with this certificate or address");
  return of_all < kMaxWatchers ? absl::OkStatus() : TooManyWatchers("");
}

void WorkerService::SetAddress(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  BATON_CHECK(!addressed_, "watchers know an address already");
  info_.set_address(address);
  addressed_ = changed_ = true;
  awake_.NotifyOne();
}

void WorkerService::StateChanged() {
  absl::MutexLock lock(&mutex_);
  changed_ = true;
  awake_.NotifyOne();
}

void WorkerService::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  awake_.NotifyOne();
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
      awake_.WaitFor(mutex_, kWatchInterval, awake);
      if (closed_) return;
      changed_ = false;
      if (watchers_.empty() || !addressed_) continue;
    }
    const WatchResponse snapshot = snapshot_();
    absl::MutexLock lock(&mutex_);
    for (Watcher* watcher : watchers_) {
      const absl::Status trusted = credentials_.CheckPeer(*watcher->connection());
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
