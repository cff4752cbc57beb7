#include "tests/support/mock_worker.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/random.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

using internal::v1::AttemptKey;
using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::OutputToken;
using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::SequenceSpec;
using internal::v1::WatchResponse;

constexpr absl::Duration kPoll = absl::Milliseconds(1);

std::string HandOffKey(const std::string& address, const AttemptKey& key) {
  return absl::StrCat(address, " ", key.SerializeAsString());
}

}  // namespace

std::vector<OutputToken> MockTokens(const std::vector<uint32_t>& prompt,
                                    const v1::SamplingParams& sampling, uint32_t vocab_size,
                                    uint32_t eos_id, const std::vector<uint32_t>& output) {
  const std::string bytes(reinterpret_cast<const char*>(prompt.data()), prompt.size() * 4);
  Hash128 history = ChainHash({.high = sampling.seed(), .low = 0}, bytes);
  const auto append = [&history](uint32_t id) {
    history = ChainHash(history, absl::string_view(reinterpret_cast<const char*>(&id), 4));
  };
  for (const uint32_t id : output) append(id);
  std::vector<OutputToken> tokens;
  for (auto index = static_cast<uint32_t>(output.size()); index < sampling.max_tokens(); ++index) {
    const Hash128 hash = history;
    const auto id = static_cast<uint32_t>(hash.low % vocab_size);
    append(id);
    OutputToken& token = tokens.emplace_back();
    token.set_output_index(index);
    token.mutable_token()->set_token_id(id);
    if (sampling.has_logprobs()) {
      token.mutable_token()->set_logprob(-static_cast<float>(hash.high % 1000) / 100);
    }
    const bool eos = id == eos_id && !sampling.ignore_eos() && index >= sampling.min_tokens();
    if (!eos && index + 1 < sampling.max_tokens()) continue;
    token.set_ends_sequence(true);
    token.set_finish_reason(eos ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
    break;
  }
  return tokens;
}

void MockHandOff::Commit(const std::string& decode_address, const AttemptKey& key) {
  absl::MutexLock lock(&mutex_);
  committed_[HandOffKey(decode_address, key)] = true;
}

bool MockHandOff::Committed(const std::string& decode_address, const AttemptKey& key) const {
  absl::MutexLock lock(&mutex_);
  return committed_.count(HandOffKey(decode_address, key)) != 0;
}

struct MockWorker::Rep : public internal::v1::WorkerService::Service,
                         public internal::v1::PrefillService::Service,
                         public internal::v1::DecodeService::Service {
  Rep(const Options& o, MockHandOff& h) : options(o), hand_off(h) {}

  MockBehaviour behaviour() const {
    absl::MutexLock lock(&mutex);
    return behaviour_now;
  }
  bool Gone(const grpc::ServerContext& context) const { return context.IsCancelled() || killed; }
  // False when the call has ended meanwhile. A silent or stuck worker does not advance.
  bool Sleep(const grpc::ServerContext& context, absl::Duration duration) const {
    const absl::Time until = absl::Now() + duration;
    while (!Gone(context) && (absl::Now() < until || behaviour().silent || behaviour().stuck)) {
      absl::SleepFor(kPoll);
    }
    return !Gone(context);
  }

  internal::v1::WorkerInfo Info() const;
  grpc::Status Watch(grpc::ServerContext* context, const internal::v1::WatchRequest*,
                     grpc::ServerWriter<WatchResponse>* writer) override;
  grpc::Status Prefill(grpc::ServerContext* context, const PrefillRequest* request,
                       grpc::ServerWriter<PrefillResponse>* writer) override;
  grpc::Status Decode(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<DecodeResponse, DecodeRequest>* stream) override;
  // What the mock engine says next, after the output that the sequence has.
  std::vector<OutputToken> Remaining(const SequenceSpec& sequence) const;
  // The answers to `start`, until the sequence ends, is stopped, or the call is gone.
  void RunDecode(grpc::ServerContext* context, const internal::v1::DecodeStart& start,
                 const std::atomic<bool>& stopped, const std::atomic<bool>& paused,
                 grpc::ServerReaderWriter<DecodeResponse, DecodeRequest>* stream);

  const Options options;
  MockHandOff& hand_off;
  const uint64_t incarnation = RandomUint64();
  mutable absl::Mutex mutex;
  MockBehaviour behaviour_now ABSL_GUARDED_BY(mutex);
  std::atomic<bool> killed = false;
  std::atomic<bool> saw_pause = false;
  std::atomic<uint64_t> progress = 0;
  std::atomic<int> active = 0;
  std::atomic<int> total = 0;
  std::string address;
  std::unique_ptr<grpc::Server> server;
};

internal::v1::WorkerInfo MockWorker::Rep::Info() const {
  internal::v1::WorkerInfo info;
  info.set_name(options.name);
  info.set_role(options.role);
  info.set_incarnation(incarnation);
  info.mutable_identity()->set_protocol_version(kProtocolVersion);
  info.mutable_identity()->set_weights_digest(options.weights_digest);
  info.mutable_identity()->set_tokenizer_digest(options.tokenizer_digest);
  info.mutable_shape()->set_layers(2);
  info.mutable_shape()->set_kv_heads(1);
  info.mutable_shape()->set_head_dim(16);
  info.mutable_shape()->set_dtype("f16");
  info.mutable_shape()->set_block_size(32);
  info.mutable_shape()->set_numerics("mock");
  info.mutable_shape()->add_wire_dtypes("f16");
  info.set_total_blocks(1000);
  info.set_max_model_len(options.max_model_len);
  info.set_version("0");
  info.set_address(address);
  return info;
}

grpc::Status MockWorker::Rep::Watch(grpc::ServerContext* context, const internal::v1::WatchRequest*,
                                    grpc::ServerWriter<WatchResponse>* writer) {
  bool first = true;
  while (!Gone(*context)) {
    if (!behaviour().silent) {
      WatchResponse message;
      if (first) *message.mutable_info() = Info();
      first = false;
      message.set_state(internal::v1::WORKER_STATE_READY);
      if (!behaviour().stuck) ++progress;
      message.set_progress(progress);
      message.set_runnable_sequences(static_cast<uint32_t>(active));
      message.mutable_load()->set_free_blocks(1000);
      if (!writer->Write(message)) break;
    }
    const absl::Time until = absl::Now() + absl::Milliseconds(100);
    while (!Gone(*context) && absl::Now() < until) absl::SleepFor(kPoll);
  }
  return grpc::Status::OK;
}

std::vector<OutputToken> MockWorker::Rep::Remaining(const SequenceSpec& sequence) const {
  const auto prompt_end = sequence.token_ids().begin() + static_cast<int>(sequence.prompt_length());
  return MockTokens({sequence.token_ids().begin(), prompt_end}, sequence.sampling(),
                    options.vocab_size, options.eos_id, {prompt_end, sequence.token_ids().end()});
}

grpc::Status MockWorker::Rep::Prefill(grpc::ServerContext* context, const PrefillRequest* request,
                                      grpc::ServerWriter<PrefillResponse>* writer) {
  ++active;
  ++total;
  const std::unique_ptr<std::atomic<int>, void (*)(std::atomic<int>*)> leave(
      &active, [](std::atomic<int>* count) { --*count; });
  const MockBehaviour b = behaviour();
  PrefillResponse response;
  response.mutable_started()->set_cached_tokens(0);
  writer->Write(response);
  if (!Sleep(*context, b.before_first_token)) return grpc::Status::CANCELLED;
  response.mutable_progress()->set_computed_tokens(request->sequence().prompt_length());
  writer->Write(response);
  OutputToken first = Remaining(request->sequence())[0];
  const uint32_t id = first.token().token_id();
  if (b.wrong_first_token) first.mutable_token()->set_token_id((id + 1) % options.vocab_size);
  *response.mutable_first_token() = first;
  writer->Write(response);
  if (!Sleep(*context, b.before_commit)) return grpc::Status::CANCELLED;
  if (!request->decode_address().empty() && !first.ends_sequence()) {
    hand_off.Commit(request->decode_address(), request->sequence().key());
    response.mutable_finished()->set_bytes_sent(12345);
  } else {
    response.mutable_finished();
  }
  writer->Write(response);
  return grpc::Status::OK;
}

grpc::Status MockWorker::Rep::Decode(
    grpc::ServerContext* context, grpc::ServerReaderWriter<DecodeResponse, DecodeRequest>* stream) {
  ++active;
  ++total;
  const std::unique_ptr<std::atomic<int>, void (*)(std::atomic<int>*)> leave(
      &active, [](std::atomic<int>* count) { --*count; });
  DecodeRequest first;
  if (!stream->Read(&first) || !first.has_start()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "the first message must be a start"};
  }
  std::atomic<bool> stopped = false, paused = false;
  std::thread reader([&] {
    DecodeRequest request;
    while (stream->Read(&request)) {
      if (request.has_stop()) stopped = true;
      if (request.has_flow()) {
        saw_pause = true;
        paused = request.flow().paused();
      }
    }
  });
  RunDecode(context, first.start(), stopped, paused, stream);
  if (killed) context->TryCancel();
  reader.join();  // the router half-closes or cancels
  return grpc::Status::OK;
}

void MockWorker::Rep::RunDecode(grpc::ServerContext* context,
                                const internal::v1::DecodeStart& start,
                                const std::atomic<bool>& stopped, const std::atomic<bool>& paused,
                                grpc::ServerReaderWriter<DecodeResponse, DecodeRequest>* stream) {
  const MockBehaviour b = behaviour();
  const SequenceSpec& sequence = start.sequence();
  if (!Sleep(*context, b.before_accept)) return;
  DecodeResponse response;
  *response.mutable_accepted()->mutable_shape() = Info().shape();
  stream->Write(response);
  if (start.prefill_locally()) {
    if (!Sleep(*context, b.before_first_token)) return;
  } else {
    while (!hand_off.Committed(address, sequence.key())) {
      if (!Sleep(*context, kPoll)) return;
    }
    response.mutable_committed()->set_exact(true);
    stream->Write(response);
  }
  for (const OutputToken& token : Remaining(sequence)) {
    while (paused && Sleep(*context, kPoll)) continue;
    if (stopped) break;
    if (b.skip_a_token && token.output_index() == 1) continue;
    response.mutable_tokens()->clear_tokens();
    *response.mutable_tokens()->add_tokens() = token;
    if (!stream->Write(response) || !Sleep(*context, b.between_tokens)) return;
  }
  response.mutable_finished()->set_exact(true);
  stream->Write(response);
}

MockWorker::MockWorker(const Options& options, MockHandOff& hand_off)
    : rep_(std::make_unique<Rep>(options, hand_off)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", options.port),
                           grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.RegisterService(static_cast<internal::v1::WorkerService::Service*>(rep_.get()));
  builder.RegisterService(static_cast<internal::v1::PrefillService::Service*>(rep_.get()));
  builder.RegisterService(static_cast<internal::v1::DecodeService::Service*>(rep_.get()));
  rep_->server = builder.BuildAndStart();
  BATON_CHECK(rep_->server != nullptr && port != 0, "the mock worker cannot listen");
  rep_->address = absl::StrCat("127.0.0.1:", port);
}

MockWorker::~MockWorker() { Kill(); }

const std::string& MockWorker::address() const { return rep_->address; }

void MockWorker::Behave(const MockBehaviour& behaviour) {
  absl::MutexLock lock(&rep_->mutex);
  rep_->behaviour_now = behaviour;
}

void MockWorker::Kill() {
  if (rep_->killed.exchange(true)) return;
  rep_->server->Shutdown(std::chrono::system_clock::now());
  rep_->server->Wait();
}

internal::v1::WorkerRole MockWorker::role() const { return rep_->options.role; }
int MockWorker::active_calls() const { return rep_->active; }
int MockWorker::total_calls() const { return rep_->total; }
bool MockWorker::saw_pause() const { return rep_->saw_pause; }

}  // namespace baton
