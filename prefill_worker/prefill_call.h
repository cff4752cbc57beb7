// One Prefill call: the prompt is computed here and pushed to the decode worker that the router
// chose.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "baton/internal/v1/prefill.grpc.pb.h"
#include "common/base/thread_group.h"
#include "common/engine/engine.h"
#include "common/rpc/outbox.h"
#include "common/worker/grammar_reader.h"
#include "common/worker/worker_metrics.h"
#include "prefill_worker/channel_cache.h"
#include "prefill_worker/prefill_spans.h"
#include "prefill_worker/send_driver.h"

namespace baton {

// Options and bounds of the prefill service.
struct PrefillServiceOptions {
  std::string worker_name;
  internal::v1::ModelIdentity identity;
  internal::v1::KvShape shape;
  std::string kv_wire_dtype = "auto";  // value of --kv-wire-dtype
  bool strict_kv_dtype = false;        // value of --strict-kv-dtype
  SendLimits limits = {};
  // Staging of the engine's cache if that is in a device's memory, else null. Borrowed.
  KvStaging* staging = nullptr;
  int max_calls = 1024;                     // calls at once; one more is RESOURCE_EXHAUSTED
  WorkerMetrics* metrics = nullptr;         // borrowed; null: nothing is counted
  const GrammarReader* grammars = nullptr;  // borrowed; null: requests with a grammar are refused
};

// Thread-safe. Keeps itself alive until gRPC is done with the call, the push is done with its
// slices, and the engine is done with its sequence.
class PrefillCall final : public grpc::ServerWriteReactor<internal::v1::PrefillResponse>,
                          public std::enable_shared_from_this<PrefillCall> {
 public:
  // Borrows everything except `done`, which the destructor calls. The call's push runs in `pushes`.
  PrefillCall(Engine& engine, ChannelCache& channels, ThreadGroup& pushes,
              const PrefillServiceOptions& options, std::function<void()> done);
  ~PrefillCall() override;

  void Start(const internal::v1::PrefillRequest& request);
  // Ends the call with `status`, and the sequence and the push with it.
  void End(const absl::Status& status);

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  absl::Status Submit(const internal::v1::PrefillRequest& request);
  // The end of a call whose push may not connect to `decode_address`, as `status` says.
  absl::Status WhyNoChannel(const absl::Status& status, const std::string& decode_address) const;
  // The wire type of a push to a cache of this shape. FAILED_PRECONDITION if there is none, or
  // where a layer keeps something else there than here.
  absl::StatusOr<KvType> AgreeOnShape(const internal::v1::KvShape& decode_shape) const;
  SendConfig PushConfig(const internal::v1::PrefillRequest& request, KvType wire,
                        std::vector<int32_t> token_ids) const;
  void On(const SequenceAdmitted&) {}
  void On(const BlocksGranted&) {}
  void On(const PrefillStarted& event);
  void On(const LayerComputed& event);
  void On(const ChunkComputed& event);
  void On(const PromptScored& event);
  void On(const TokenProduced& event);
  void On(const SequencePreempted&) {}
  void On(const SequenceFinished& event);
  void On(const SequenceFailed& event);
  void On(const SequenceReleased&) {}
  void On(const SequenceAlive&);
  void StartPush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostLayer(LayerTokens kv, const LayerComputed& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnPushFinished(const absl::Status& status, const SendReport& report);

  void Queue(internal::v1::PrefillResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MaybeFinish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndSequence(internal::v1::PushAbort::Reason reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Engine& engine_;
  ChannelCache& channels_;
  ThreadGroup& pushes_;
  const PrefillServiceOptions& options_;
  const std::function<void()> done_;
  std::shared_ptr<PrefillCall> self_;  // keeps the call alive until OnDone

  absl::Mutex mutex_;
  // At most one response of each kind, a first token for each choice, and the prompt's log
  // probabilities (kMaxPromptLogprobs).
  Outbox<internal::v1::PrefillResponse> outbox_ ABSL_GUARDED_BY(mutex_);
  bool queued_ ABSL_GUARDED_BY(mutex_) = false;  // a response was queued since the last sign

  std::string decode_address_;  // written once, by Submit; empty: no push
  std::string wire_dtype_;      // written once, by Submit
  int choices_ = 1;             // written once, by Submit
  int token_count_ = 0;         // written once, by Submit: of the whole sequence
  SequenceId sequence_ = 0;     // written once, by Submit
  bool submitted_ ABSL_GUARDED_BY(mutex_) = false;
  ChannelCache::Channels push_channels_ ABSL_GUARDED_BY(mutex_);
  std::optional<SendConfig> push_config_ ABSL_GUARDED_BY(mutex_);  // until the push starts
  std::shared_ptr<SendDriver> push_ ABSL_GUARDED_BY(mutex_);
  std::optional<WorkerMetrics::InFlight> inflight_ ABSL_GUARDED_BY(mutex_);  // while it pushes
  int cached_tokens_ ABSL_GUARDED_BY(mutex_) = 0;  // cached tokens not posted to the push yet
  absl::Time started_ ABSL_GUARDED_BY(mutex_);     // when the first chunk began
  ChunkSpans chunks_ ABSL_GUARDED_BY(mutex_);
  std::vector<internal::v1::OutputToken> first_tokens_ ABSL_GUARDED_BY(mutex_);  // by choice
  std::optional<SequenceFinished> computed_ ABSL_GUARDED_BY(mutex_);  // once all is computed
  std::optional<SendReport> pushed_ ABSL_GUARDED_BY(mutex_);          // once the push has ended
};

}  // namespace baton
