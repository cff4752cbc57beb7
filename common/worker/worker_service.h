// WorkerService.Watch sends a worker's state to every router, every 250 ms and at once when it
// changes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/base/timed_wait.h"
#include "common/certificates/credentials.h"
#include "common/engine/engine.h"
#include "common/kv/prefix_pages.h"
#include "common/net/health.h"
#include "common/rpc/receiving_service.h"

namespace baton {

// Makes the info about a worker, with an incarnation drawn at random. The caller sets the address
// and all other fields.
internal::v1::WorkerInfo MakeWorkerInfo(internal::v1::WorkerRole role, const std::string& name,
                                        const internal::v1::ModelIdentity& identity,
                                        const internal::v1::KvShape& shape);

// The most pages, added and removed, in one message.
inline constexpr size_t kMaxPrefixPages = 4096;

// Makes a Watch message from the engine's counters. Its prefix is left empty.
internal::v1::WatchResponse WatchFromStats(ServerState state, const EngineStats& stats);

// Thread-safe. Each router has one stream: a newer one ends it with ABORTED, reason SUPERSEDED. At
// most kMaxWatchers are served, and kMaxWatchersOfPeer of one certificate; more get
// RESOURCE_EXHAUSTED. Each stream has at most one message in flight and the newest one pending. A
// thread of the service asks for snapshots.
class WorkerService final : public ReceivingService<internal::v1::WorkerService> {
 public:
  // `snapshot` makes a message without info and prefix. It is called on this service's thread and
  // must not block. The prefix messages report `pages`, which is borrowed: each stream gets a full
  // list first and then the changes, in messages numbered from 1. Pages that do not fit in one
  // message follow at once in the next. Null: there are no prefix messages. A stream ends when the
  // certificate of its router is revoked, by what `credentials` know.
  WorkerService(internal::v1::WorkerInfo info,
                std::function<internal::v1::WatchResponse()> snapshot, Credentials credentials,
                const PrefixPages* pages = nullptr);
  ~WorkerService() override;

  // Sends a snapshot to all watchers at once.
  void StateChanged();
  // Ends all streams with UNAVAILABLE and refuses new ones. Call it before the server is shut down.
  void Close();
  int watchers() const;

  // Sets the address at which others reach this worker, if it is known only once the server
  // listens. Nothing is sent to watchers before. REQUIRES: the info had no address, and this is the
  // only call.
  void SetAddress(const std::string& address);
  // REQUIRES: the address is known.
  const internal::v1::WorkerInfo& info() const { return info_; }

 private:
  class Watcher;
  grpc::ServerWriteReactor<internal::v1::WatchResponse>* Watch(
      grpc::CallbackServerContext* context,
      std::unique_ptr<Received<internal::v1::WatchRequest>> request);
  // Ends the streams of `router` that `peer` has, and says whether there is room for one more.
  absl::Status TakePlace(const std::string& peer, const std::string& router)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();
  void Remove(Watcher* watcher);

  internal::v1::WorkerInfo info_;  // fixed once addressed_
  const std::function<internal::v1::WatchResponse()> snapshot_;
  const Credentials credentials_;
  const PrefixPages* const pages_;
  mutable absl::Mutex mutex_;
  // Each watcher deletes itself when its stream is done.
  std::vector<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);
  bool addressed_ ABSL_GUARDED_BY(mutex_);  // whether the address is known
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  TimedCondVar awake_;  // notified when changed_ or closed_ becomes true
  std::thread thread_;
};

}  // namespace baton
