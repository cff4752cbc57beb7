#include "tests/decode_worker/worker_pair.h"

#include <cstdlib>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

#include "common/backend/make_backend.h"
#include "common/base/clock.h"
#include "common/base/numerics.h"
#include "common/certificates/credentials.h"
#include "common/gguf/gguf_file.h"
#include "common/handoff/kv_wire_choice.h"
#include "common/rpc/limits.h"
#include "common/worker/convert.h"
#include "tests/support/late_backend.h"
#include "tests/support/sampling_messages.h"

namespace baton {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::SequenceSpec;

TestWorker::TestWorker(const Options& options) {
  MakeBackendOf(options);
  MakeEngine(options);
  SetServiceOptions(options);
  registry_ = std::make_unique<AttemptRegistry>(decode_options_.max_calls);
  channels_ = std::make_unique<ChannelCache>(ChannelCache::Options{
      .credentials = Credentials::Loopback(), .connections = options.kv_connections});
  decode_service_ = std::make_unique<DecodeService>(*engine_, *registry_, decode_options_);
  push_service_ = std::make_unique<PushService>(*registry_, decode_options_);
  prefill_service_ = std::make_unique<PrefillService>(*engine_, *channels_, prefill_options_);
  Serve();
  engine_thread_ = std::make_unique<EngineThread>(*engine_);
}

void TestWorker::MakeBackendOf(const Options& options) {
  const char* elsewhere = std::getenv("BATON_TEST_DEVICE");
  const std::string device = elsewhere != nullptr ? elsewhere : options.device;
  const bool late = device == "late";
  auto backend = MakeBackend({.device = late ? "cpu" : device,
                              .threads = options.threads,
                              .cpu_set = "",
                              .cpu_isa = options.cpu_isa,
                              .deterministic = options.deterministic});
  EXPECT_TRUE(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
  if (late) {
    auto late_backend =
        std::make_unique<LateBackend>(std::move(backend_), LateBackend::Memory::kNear, /*seed=*/1);
    late_backend->copies().StartThread();
    backend_ = std::move(late_backend);
  }
}

void TestWorker::MakeEngine(const Options& options) {
  const bool is_path = options.model.find('/') != std::string::npos;
  const auto file = GgufFile::Open(
      is_path ? options.model : std::string(BATON_TEST_DATA) + "/tiny/" + options.model);
  EXPECT_TRUE(file.ok()) << file.status();
  auto model = Transformer::Load(*file, *backend_, [](double) {});
  EXPECT_TRUE(model.ok()) << model.status();
  EngineOptions engine_options;
  engine_options.max_num_batched_tokens = options.max_num_batched_tokens;
  engine_options.block_size = options.block_size;
  engine_options.num_kv_blocks = options.num_kv_blocks;
  engine_options.kv_dtype = options.kv_dtype;
  engine_options.resume_timeout = options.resume_timeout;
  engine_options.sign_interval = options.sign_interval;
  engine_options.speculation = options.speculation;
  auto engine = Engine::Create(*std::move(model), *backend_, engine_options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
  if (!engine_->cache().host_memory()) {
    auto staging =
        KvStaging::Create(engine_->cache(), {.bytes = options.staging_bytes,
                                             .chunk_tokens = options.max_num_batched_tokens,
                                             .helpers = options.copy_helpers});
    EXPECT_TRUE(staging.ok()) << staging.status();
    staging_ = *std::move(staging);
  }
}

void TestWorker::SetServiceOptions(const Options& options) {
  decode_options_.identity.set_protocol_version(kProtocolVersion);
  decode_options_.identity.set_architecture(options.architecture);
  decode_options_.identity.set_weights_digest(std::string(32, 'w'));
  decode_options_.shape = ShapeFromLayout(
      engine_->cache().layout(), Numerics::OfCache(backend_->Numerics(), options.kv_dtype).name());
  SetWireTypes(options.kv_wire_dtype, options.strict_kv_dtype, decode_options_.shape);
  decode_options_.strict_kv_dtype = options.strict_kv_dtype;
  decode_options_.limits = options.receiver_limits;
  decode_options_.staging = staging_.get();
  decode_options_.max_queued_tokens = options.max_queued_tokens;
  decode_options_.max_streams = options.max_streams;
  decode_options_.max_calls = options.max_calls;
  decode_options_.silent = options.silent;
  prefill_options_.identity = decode_options_.identity;
  prefill_options_.shape = decode_options_.shape;
  prefill_options_.kv_wire_dtype = options.kv_wire_dtype;
  prefill_options_.strict_kv_dtype = options.strict_kv_dtype;
  prefill_options_.limits = options.sender_limits;
  prefill_options_.staging = staging_.get();
  const auto stats = [this] { return engine_->Stats(); };
  decode_options_.metrics =
      &received_.emplace(metrics_, stats, WorkerMetrics::Direction::kReceived);
  if (options.audit_share > 0) {
    audit_ = std::make_unique<KvAudit>(*engine_, KvAudit::Options{.share = options.audit_share,
                                                                  .random = options.audit_random,
                                                                  .metrics = &*received_});
    decode_options_.audit = audit_.get();
  }
  prefill_options_.metrics =
      &sent_.emplace(sending_metrics_, stats, WorkerMetrics::Direction::kSent);
}

// On a port of its own, with a channel to it.
void TestWorker::Serve() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.RegisterService(decode_service_.get());
  builder.RegisterService(push_service_.get());
  builder.RegisterService(prefill_service_.get());
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr);
  address_ = "127.0.0.1:" + std::to_string(port);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  decode_stub_ = internal::v1::DecodeService::NewStub(channel_);
  prefill_stub_ = internal::v1::PrefillService::NewStub(channel_);
}

void TestWorker::EndAll(const absl::Status& status) {
  registry_->EndAll(status);
  prefill_service_->EndAll(status);
}

TestWorker::~TestWorker() {
  EndAll();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  EXPECT_TRUE(ComesToRest());
}

testing::AssertionResult TestWorker::ComesToRest() {
  const absl::Time deadline = SteadyNow() + absl::Seconds(20);
  while (true) {
    const EngineStats stats = engine_->Stats();
    const int taken_slots =
        staging_ == nullptr ? 0 : staging_->slot_count() - staging_->free_slots();
    if (stats.used_blocks == 0 && stats.reserved_blocks == 0 && stats.waiting_sequences == 0 &&
        stats.running_sequences == 0 && decode_service_->calls() == 0 &&
        prefill_service_->calls() == 0 && taken_slots == 0) {
      return testing::AssertionSuccess();
    }
    if (SteadyNow() > deadline) {
      return testing::AssertionFailure()
             << decode_service_->calls() << " decode and " << prefill_service_->calls()
             << " prefill calls, " << stats.used_blocks << " blocks used, " << stats.reserved_blocks
             << " reserved, " << stats.waiting_sequences << " sequences wait, "
             << stats.running_sequences << " run, " << taken_slots
             << " slots of the staging are taken";
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
}

SequenceSpec MakeSpec(const std::vector<int32_t>& token_ids, const SamplingParams& sampling,
                      uint64_t request_id, uint32_t attempt) {
  SequenceSpec spec;
  spec.mutable_key()->set_request_id_high(request_id);
  spec.mutable_key()->set_request_id_low(77);
  spec.mutable_key()->set_attempt(attempt);
  for (const int32_t id : token_ids) spec.add_token_ids(static_cast<uint32_t>(id));
  spec.set_prompt_length(static_cast<uint32_t>(token_ids.size()));
  *spec.mutable_sampling() = SamplingToProto(sampling);
  spec.set_capability("capability" + std::to_string(100000 + request_id % 100000));
  return spec;
}

PrefillRequest PrefillRequestFor(TestWorker& decode, const SequenceSpec& spec) {
  PrefillRequest request;
  *request.mutable_sequence() = spec;
  request.set_decode_address(decode.address());
  *request.mutable_decode_identity() = decode.identity();
  *request.mutable_decode_shape() = decode.shape();
  return request;
}

std::vector<uint32_t> HandoffResult::token_ids() const {
  std::vector<uint32_t> ids;
  for (const auto& token : tokens) ids.push_back(token.token().token_id());
  return ids;
}

void HandoffResult::Add(internal::v1::OutputToken token) {
  accepted_guesses += token.guessed() ? 1 : 0;
  refused_guesses += token.refused_guesses();
  token.clear_guessed();
  token.clear_refused_guesses();
  tokens.push_back(std::move(token));
}

HandoffCalls::HandoffCalls(TestWorker* prefill, TestWorker& decode, const SequenceSpec& spec,
                           const std::string& decode_address)
    : prefill_(prefill == nullptr ? nullptr
                                  : internal::v1::PrefillService::NewStub(prefill->channel())),
      decode_(internal::v1::DecodeService::NewStub(decode.channel())),
      prefill_request_(PrefillRequestFor(decode, spec)) {
  if (!decode_address.empty()) prefill_request_.set_decode_address(decode_address);
}

HandoffResult HandoffCalls::Run(const HandoffHooks& hooks) {
  HandoffResult result;
  stream_ = decode_->Decode(&decode_context_);
  DecodeRequest start;
  *start.mutable_start()->mutable_sequence() = prefill_request_.sequence();
  start.mutable_start()->set_prefill_locally(prefill_ == nullptr);
  if (!pusher_.empty()) start.mutable_start()->mutable_pusher()->set_worker_id(pusher_);
  stream_->Write(start);
  std::thread prefilling;
  for (DecodeResponse response; stream_->Read(&response);) {
    if (hooks.on_decode) hooks.on_decode(response);
    if (response.has_accepted()) {
      result.accepted = true;
      if (prefill_ != nullptr && !cancelled_) {
        prefilling = std::thread([&] { RunPrefill(hooks, result); });
      }
    }
    if (response.has_committed()) result.committed = true;
    for (const auto& token : response.tokens().tokens()) result.Add(token);
    if (response.has_finished()) {
      result.finished = response.finished();
      result.finished_choices.push_back(response.finished().choice());
    }
  }
  result.decode_status = stream_->Finish();
  if (prefilling.joinable()) prefilling.join();
  return result;
}

void HandoffCalls::RunPrefill(const HandoffHooks& hooks, HandoffResult& result) {
  auto call = prefill_->Prefill(&prefill_context_, prefill_request_);
  for (PrefillResponse response; call->Read(&response);) {
    if (hooks.on_prefill) hooks.on_prefill(response);
    if (response.has_started()) result.prefill_started = response.started();
    if (response.has_first_token()) result.first_token = response.first_token();
    if (response.has_progress()) ++result.progress;
    if (response.has_finished()) result.prefill_finished = response.finished();
  }
  result.prefill_status = call->Finish();
  if (hooks.on_prefill_end) hooks.on_prefill_end(result.prefill_status);
}

void HandoffCalls::Send(const DecodeRequest& request) { stream_->Write(request); }

void HandoffCalls::Cancel() {
  cancelled_ = true;
  CancelDecode();
  CancelPrefill();
}

HandoffResult RunHandoff(TestWorker& prefill, TestWorker& decode, const SequenceSpec& spec,
                         const std::string& decode_address) {
  return HandoffCalls(&prefill, decode, spec, decode_address).Run();
}

HandoffResult RunLocally(TestWorker& decode, const SequenceSpec& spec) {
  return HandoffCalls(nullptr, decode, spec).Run();
}

}  // namespace baton
