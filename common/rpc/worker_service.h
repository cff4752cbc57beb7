// WorkerService.Watch: a worker's state, sent to every router every 250 ms and at once when it
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
#include "common/engine/engine.h"
#include "common/kv/prefix_pages.h"
#include "common/rpc/health.h"
#include "common/rpc/receiving_service.h"

namespace baton {

// Info about a worker, with an incarnation drawn here. Address and the rest are the caller's.
internal::v1::WorkerInfo MakeWorkerInfo(internal::v1::WorkerRole role, const std::string& name,
                                        const internal::v1::ModelIdentity& identity,
                                        const internal::v1::KvShape& shape);

// Pages, added and removed, that one message tells of at most.
inline constexpr size_t kMaxPrefixPages = 4096;

// Counters of the engine as Watch sends them; prefix is left empty.
internal::v1::WatchResponse WatchFromStats(ServerState state, const EngineStats& stats);

// Thread-safe. At most kMaxWatchers streams, each with one message in flight and the newest one
// pending; more watchers get RESOURCE_EXHAUSTED. A thread of its own asks for snapshots.
class WorkerService final : public ReceivingService<internal::v1::WorkerService> {
 public:
  // `snapshot` gives everything but info and prefix; called on this service's thread, must not
  // block. `pages`, borrowed, is what the prefix messages tell of: on each stream a full list first
  // and then what changed, numbered from 1; what does not fit in one message follows at once in the
  // next. Null: nothing is told.
  WorkerService(internal::v1::WorkerInfo info,
                std::function<internal::v1::WatchResponse()> snapshot,
                const PrefixPages* pages = nullptr);
  ~WorkerService() override;

  // Sends a snapshot to all watchers at once.
  void StateChanged();
  // Ends all streams with UNAVAILABLE and refuses new ones: call before the server is shut down.
  void Close();
  int watchers() const;

  // Where others reach this worker, when that is known only once the server listens: nothing is
  // sent to watchers before. REQUIRES: the info came without an address, and nobody has called this
  // yet.
  void SetAddress(const std::string& address);
  // REQUIRES: its address is known.
  const internal::v1::WorkerInfo& info() const { return info_; }

 private:
  class Watcher;
  grpc::ServerWriteReactor<internal::v1::WatchResponse>* Watch(
      grpc::CallbackServerContext* context, const Received<internal::v1::WatchRequest>* request);
  void Loop();
  void Remove(Watcher* watcher);

  internal::v1::WorkerInfo info_;  // fixed once addressed_
  const std::function<internal::v1::WatchResponse()> snapshot_;
  const PrefixPages* const pages_;
  mutable absl::Mutex mutex_;
  std::vector<Watcher*> watchers_
      ABSL_GUARDED_BY(mutex_);              // each deletes itself when its stream is done
  bool addressed_ ABSL_GUARDED_BY(mutex_);  // the address is known
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
