// A prefill and a decode worker with real engines and real gRPC servers on loopback, and the
// router's part by hand.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "common/backend/backend.h"
#include "common/base/random.h"
#include "common/engine/engine.h"
#include "common/engine/engine_thread.h"
#include "common/net/metrics.h"
#include "common/worker/worker_metrics.h"
#include "decode_worker/attempt_registry.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/push_service.h"
#include "prefill_worker/prefill_service.h"

namespace baton {

// One process' worth of either worker (it can do both), on a tiny model.
class TestWorker {
 public:
  struct Options {
    int block_size = 16;
    int num_kv_blocks = 128;
    int max_num_batched_tokens = 64;
    std::string model = "tiny-llama-f32.gguf";  // a file of tests/data/tiny, or a path
    std::string architecture = "llama";         // architecture in the identity it claims
    // cpu, or cuda; or late: the CPU behind a LateBackend. BATON_TEST_DEVICE names it too.
    std::string device = "cpu";
    uint64_t staging_bytes = uint64_t{64} << 10;  // pinned memory of a device
    int copy_helpers = 2;                         // threads that help with what is in it
    bool deterministic = false;
    SpeculationMode speculation = SpeculationMode::kAuto;
    int threads = 1;
    std::string cpu_isa = "auto";
    KvType kv_dtype = KvType::kF16;
    std::string kv_wire_dtype = "auto";
    bool strict_kv_dtype = false;
    SendLimits sender_limits = {.max_payload_bytes = 4096, .min_payload_bytes = 0};
    ReceiveLimits receiver_limits = {.window_bytes = 16384};
    int max_queued_tokens = 256;
    int kv_connections = 3;
    size_t max_streams = 4096;  // streams that it receives at once
    size_t max_calls = 1024;    // calls that it decodes at once
    SilentStreams::Limits silent = {};
    absl::Duration resume_timeout = absl::Seconds(30);
    absl::Duration sign_interval = EngineOptions().sign_interval;
    double audit_share = 0;  // share of pushes that are audited
    std::function<uint64_t()> audit_random = RandomUint64;
  };
  explicit TestWorker(const Options& options);
  ~TestWorker();

  Engine& engine() { return *engine_; }
  KvStaging* staging() { return staging_.get(); }
  const std::string& address() const { return address_; }
  const internal::v1::ModelIdentity& identity() const { return decode_options_.identity; }
  const internal::v1::KvShape& shape() const { return decode_options_.shape; }
  internal::v1::DecodeService::Stub& decode() { return *decode_stub_; }
  internal::v1::PrefillService::Stub& prefill() { return *prefill_stub_; }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }
  DecodeService& decode_service() { return *decode_service_; }
  PrefillService& prefill_service() { return *prefill_service_; }
  const Metrics& metrics() const { return metrics_; }  // metrics of what it received
  KvAudit& audit() { return *audit_; }                 // REQUIRES: audit_share > 0
  // Ends all that runs.
  void EndAll(const absl::Status& status = absl::UnavailableError("the worker ends"));
  // Waits until no call, block or reservation is left; a failure says what stays.
  testing::AssertionResult ComesToRest();

 private:
  void MakeBackendOf(const Options& options);
  void MakeEngine(const Options& options);
  void SetServiceOptions(const Options& options);
  void Serve();

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<KvStaging> staging_;
  Metrics metrics_{"decode"}, sending_metrics_{"prefill"};
  std::optional<WorkerMetrics> received_, sent_;
  std::unique_ptr<EngineThread> engine_thread_;
  std::unique_ptr<KvAudit> audit_;
  DecodeServiceOptions decode_options_;
  PrefillServiceOptions prefill_options_;
  std::unique_ptr<AttemptRegistry> registry_;
  std::unique_ptr<ChannelCache> channels_;
  std::unique_ptr<DecodeService> decode_service_;
  std::unique_ptr<PushService> push_service_;
  std::unique_ptr<PrefillService> prefill_service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<internal::v1::DecodeService::Stub> decode_stub_;
  std::unique_ptr<internal::v1::PrefillService::Stub> prefill_stub_;
};

// What one request gave.
struct HandoffResult {
  grpc::Status decode_status;
  grpc::Status prefill_status;
  // From the decode worker, without what they tell of guesses, which depends on time.
  std::vector<internal::v1::OutputToken> tokens;
  std::vector<uint32_t> token_ids() const;
  uint32_t accepted_guesses = 0;
  uint32_t refused_guesses = 0;
  void Add(internal::v1::OutputToken token);
  bool accepted = false;
  bool committed = false;
  internal::v1::DecodeFinished finished;  // the end of the choice that came last
  std::vector<uint32_t> finished_choices;
  internal::v1::OutputToken first_token;  // from the prefill worker
  internal::v1::PrefillStarted prefill_started;
  internal::v1::PrefillFinished prefill_finished;
  int progress = 0;  // prefill progress messages
};

internal::v1::SequenceSpec MakeSpec(const std::vector<int32_t>& token_ids,
                                    const SamplingParams& sampling, uint64_t request_id,
                                    uint32_t attempt = 1);
internal::v1::PrefillRequest PrefillRequestFor(TestWorker& decode,
                                               const internal::v1::SequenceSpec& spec);

// What looks on, on the threads that read the two calls.
struct HandoffHooks {
  std::function<void(const internal::v1::DecodeResponse&)> on_decode{};
  std::function<void(const internal::v1::PrefillResponse&)> on_prefill{};
  std::function<void(const grpc::Status&)> on_prefill_end{};
};

// The router's part of one attempt, by stubs that outlive the workers: Decode, Prefill once it is
// accepted, tokens to the end.
class HandoffCalls {
 public:
  // `prefill` null: the decode worker computes the prompt. `decode_address`: where the push goes,
  // empty for the decode worker's own.
  HandoffCalls(TestWorker* prefill, TestWorker& decode, const internal::v1::SequenceSpec& spec,
               const std::string& decode_address = "");

  // Once.
  HandoffResult Run(const HandoffHooks& hooks = {});
  void Send(const internal::v1::DecodeRequest& request);  // from on_decode
  // Who is named as the pusher; before Run.
  void SetPusher(const std::string& name) { pusher_ = name; }
  // From any thread, at any time. After Cancel no prefill begins.
  void Cancel();
  void CancelDecode() { decode_context_.TryCancel(); }
  void CancelPrefill() { prefill_context_.TryCancel(); }

 private:
  void RunPrefill(const HandoffHooks& hooks, HandoffResult& result);

  const std::unique_ptr<internal::v1::PrefillService::Stub> prefill_;  // null: local
  const std::unique_ptr<internal::v1::DecodeService::Stub> decode_;
  internal::v1::PrefillRequest prefill_request_;
  std::string pusher_;
  grpc::ClientContext prefill_context_, decode_context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<internal::v1::DecodeRequest, internal::v1::DecodeResponse>>
      stream_;
  std::atomic<bool> cancelled_ = false;
};

HandoffResult RunHandoff(TestWorker& prefill, TestWorker& decode,
                         const internal::v1::SequenceSpec& spec,
                         const std::string& decode_address = "");
HandoffResult RunLocally(TestWorker& decode, const internal::v1::SequenceSpec& spec);

}  // namespace baton
