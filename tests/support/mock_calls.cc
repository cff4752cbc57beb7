#include "tests/support/mock_calls.h"

#include <algorithm>

#include "common/rpc/limits.h"

namespace baton {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::OutputToken;
using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::WatchResponse;

namespace {

constexpr uint32_t kBlockTokens = 32;
constexpr uint32_t kUntoldFreeBlocks = 1000;

}  // namespace

internal::v1::WorkerInfo MockState::Info() const {
  internal::v1::WorkerInfo info;
  info.set_name(options.name);
  info.set_role(options.role);
  info.set_incarnation(incarnation);
  info.mutable_identity()->set_protocol_version(kProtocolVersion);
  info.mutable_identity()->set_weights_digest(options.weights_digest);
  info.mutable_identity()->set_architecture(options.architecture);
  info.mutable_identity()->set_tokenizer_digest(options.tokenizer_digest);
  info.mutable_identity()->set_metadata_digest(options.metadata_digest);
  info.mutable_identity()->set_sample_digest(options.sample_digest);
  info.mutable_shape()->set_layers(2);
  info.mutable_shape()->set_kv_heads(1);
  info.mutable_shape()->set_head_dim(16);
  info.mutable_shape()->set_dtype("f16");
  info.mutable_shape()->set_block_size(kBlockTokens);
  info.mutable_shape()->set_numerics("mock");
  info.mutable_shape()->add_wire_dtypes("f16");
  info.set_total_blocks(options.kv_blocks > 0 ? options.kv_blocks
                                              : options.max_model_len / kBlockTokens + 1);
  info.set_max_model_len(options.max_model_len);
  info.set_version("0");
  info.set_weights_type(options.weights_type);
  info.set_address(address);
  return info;
}

absl::Time MockState::ComputedAt(uint32_t prompt_tokens) {
  const absl::Duration needed = behaviour().per_prompt_token * prompt_tokens;
  busy_until = std::max(busy_until, SteadyNow()) + needed;
  return busy_until;
}

absl::Time MockState::NextStep(const MockBehaviour& b) {
  const absl::Time now = SteadyNow();
  if (step_at > now) return step_at;
  const absl::Duration step = b.between_tokens + b.per_sequence * decoding;
  // A timer that was late does not slow the worker down, unless it was very late.
  step_at = now - step_at < step ? step_at + step : now + step;
  return step_at;
}

internal::v1::WorkerLoad MockState::Load() const {
  internal::v1::WorkerLoad load;
  load.set_free_blocks(options.kv_blocks > 0
                           ? options.kv_blocks - std::min(options.kv_blocks, used_blocks)
                           : kUntoldFreeBlocks);
  load.set_generated_tokens(generated_tokens);
  return load;
}

MockWatch::MockWatch(MockState& state) : MockCall(state) {
  state_.loop().PostOrRun([this] { Tick(); });
}

void MockWatch::Tick() {
  const MockBehaviour b = state_.behaviour();
  if (over()) return;
  if (!b.silent && !writing()) {
    WatchResponse message;
    if (!std::exchange(introduced_, true)) *message.mutable_info() = state_.Info();
    message.set_state(internal::v1::WORKER_STATE_READY);
    if (!b.stuck) ++state_.progress;
    message.set_progress(state_.progress);
    for (const std::string& pusher : b.quarantines) message.add_quarantined_pushers(pusher);
    // One that is stuck says that it could compute all.
    const bool some_wait = state_.options.role == internal::v1::WORKER_ROLE_DECODE && !b.stuck;
    message.set_runnable_sequences(
        static_cast<uint32_t>(some_wait ? state_.decoding : state_.active.load()));
    *message.mutable_load() = state_.Load();
    Queue(std::move(message));
  }
  RunAfter(state_.options.watch_interval, [this] { Tick(); });
}

MockPrefill::MockPrefill(MockState& state, const PrefillRequest& request)
    : MockCall(state), request_(request), behaviour_(state.behaviour()) {
  ++state_.active;
  ++state_.total;
  state_.loop().PostOrRun([this] { Start(); });
}

void MockPrefill::Start() {
  PrefillResponse response;
  response.mutable_started()->set_cached_tokens(0);
  Queue(std::move(response));
  if (behaviour_.fails) return EndWith({grpc::StatusCode::UNAVAILABLE, "it fails whatever comes"});
  if (behaviour_.forgets) return;
  GiveSigns(behaviour_.between_signs);
  const auto tokens = static_cast<uint32_t>(request_.sequence().token_ids_size());
  const absl::Duration compute = state_.ComputedAt(tokens) - SteadyNow();
  After(compute + behaviour_.before_first_token, [this] { SendFirstTokens(); });
}

void MockPrefill::SendFirstTokens() {
  PrefillResponse progress;
  progress.mutable_progress()->set_computed_tokens(request_.sequence().prompt_length());
  Queue(std::move(progress));
  const uint32_t first_choice = request_.sequence().key().choice();
  const uint32_t count = std::max(1u, request_.sequence().sampling().n());
  for (uint32_t choice = first_choice; choice < first_choice + count; ++choice) {
    MockSequence sequence(request_.sequence(), state_.vocabulary(), choice);
    PrefillResponse response;
    OutputToken& token = *response.mutable_first_token();
    token = sequence.Next();
    if (behaviour_.wrong_first_token) {
      token.mutable_token()->set_token_id((token.token().token_id() + 1) %
                                          state_.options.vocab_size);
    }
    ends_ = ends_ && token.ends_sequence();
    Queue(std::move(response));
  }
  After(behaviour_.before_commit, [this] { Commit(); });
}

void MockPrefill::Commit() {
  PrefillResponse response;
  response.mutable_finished()->set_wire_dtype(behaviour_.wire_dtype);
  if (!request_.decode_address().empty() && !ends_) {
    state_.hand_off.Commit(request_.decode_address(), request_.sequence().key());
    response.mutable_finished()->set_bytes_sent(12345);
  }
  Queue(std::move(response));
  EndWith(grpc::Status::OK);
}

MockDecode::MockDecode(MockState& state) : MockCall(state), behaviour_(state.behaviour()) {
  ++state_.active;
  ++state_.total;
  StartRead(&request_);
}

MockDecode::~MockDecode() {
  --state_.active;
  state_.used_blocks -= blocks_;
  if (steps_) state_.decoding -= static_cast<int>(unfinished_);
  if (expects_) state_.hand_off.Forget(state_.address, start_.sequence().key());
}

void MockDecode::OnReadDone(bool ok) {
  state_.loop().PostOrRun([this, ok] {
    if (!ok) {
      if (!started_) EndWith({grpc::StatusCode::INVALID_ARGUMENT, "nothing was asked"});
      return;
    }
    Take(request_);
    if (!over()) StartRead(&request_);
  });
}

void MockDecode::Take(const DecodeRequest& request) {
  if (!started_ && !request.has_start()) {
    return EndWith({grpc::StatusCode::INVALID_ARGUMENT, "the first message must be a start"});
  }
  if (request.has_start()) {
    started_ = true;
    start_ = request.start();
    Start();
  } else if (request.has_stop()) {
    const uint32_t choice = request.stop().choice() - start_.sequence().key().choice();
    if (choice < choices_.size()) FinishChoice(choice);
  } else if (request.has_flow()) {
    state_.saw_pause = true;
    paused_ = request.flow().paused() && !behaviour_.never_pauses;
    if (!paused_ && idle_) StepLater();
  }
}

void MockDecode::Start() {
  const uint32_t first = start_.sequence().key().choice();
  const uint32_t count = std::max(1u, start_.sequence().sampling().n());
  for (uint32_t choice = first; choice < first + count; ++choice) {
    choices_.emplace_back(start_.sequence(), state_.vocabulary(), choice);
  }
  running_.assign(count, true);
  unfinished_ = count;
  After(behaviour_.before_accept, [this] { Accept(); });
}

void MockDecode::Accept() {
  DecodeResponse response;
  *response.mutable_accepted()->mutable_shape() = state_.Info().shape();
  Queue(std::move(response));
  if (behaviour_.fails) return EndWith({grpc::StatusCode::UNAVAILABLE, "it fails whatever comes"});
  if (behaviour_.forgets) return;
  GiveSigns(behaviour_.between_signs);
  const auto prompt_tokens = static_cast<uint32_t>(start_.sequence().token_ids_size());
  blocks_ = (prompt_tokens + start_.sequence().sampling().max_tokens()) / kBlockTokens + 1;
  state_.used_blocks += blocks_;
  if (start_.prefill_locally()) {
    const absl::Duration compute = state_.ComputedAt(prompt_tokens) - SteadyNow();
    return After(compute + behaviour_.before_first_token, [this] { Step(); });
  }
  expects_ = true;
  state_.hand_off.Expect(state_.address, start_.sequence().key(), [this] {
    After(absl::ZeroDuration(), [this] {
      DecodeResponse committed;
      committed.mutable_committed()->set_exact(true);
      Queue(std::move(committed));
      Step();
    });
  });
}

void MockDecode::StepLater() {
  idle_ = false;
  if (behaviour_.per_sequence > absl::ZeroDuration()) {
    return After(state_.NextStep(behaviour_) - SteadyNow(), [this] { Step(); });
  }
  const absl::Duration step = behaviour_.between_tokens;
  const bool at_once = step == absl::ZeroDuration();
  const absl::Duration since = at_once ? step : (SteadyNow() - absl::UnixEpoch()) % step;
  After(step - since, [this] { Step(); });
}

void MockDecode::Step() {
  if (over()) return;
  const DecodeResponse* last = waiting();
  if (paused_ || (last != nullptr && last->tokens().tokens_size() >= kMaxQueuedTokens)) {
    idle_ = true;
    return;
  }
  if (!std::exchange(steps_, true)) state_.decoding += static_cast<int>(unfinished_);
  for (uint32_t choice = 0; choice < choices_.size(); ++choice) {
    if (!running_[choice]) continue;
    const OutputToken token = choices_[choice].Next();
    if (!behaviour_.skip_a_token || token.output_index() != 1) QueueToken(token);
    if (token.ends_sequence()) FinishChoice(choice);
  }
  if (over()) return;
  // Without an interval the next step follows when this one's message is written, if it has one.
  idle_ = behaviour_.between_tokens == absl::ZeroDuration() && writing();
  if (!idle_) StepLater();
}

void MockDecode::QueueToken(const OutputToken& token) {
  ++state_.generated_tokens;
  if (DecodeResponse* last = waiting(); last != nullptr && last->has_tokens()) {
    *last->mutable_tokens()->add_tokens() = token;
    return;
  }
  DecodeResponse response;
  *response.mutable_tokens()->add_tokens() = token;
  Queue(std::move(response));
}

void MockDecode::Written() {
  if (!idle_ || paused_ || waiting() != nullptr || writing()) return;
  if (behaviour_.between_tokens == absl::ZeroDuration()) {
    if (state_.stalled()) return StepLater();
    Step();
  } else {
    StepLater();
  }
}

void MockDecode::FinishChoice(uint32_t choice) {
  if (!running_[choice]) return;
  running_[choice] = false;
  if (steps_) --state_.decoding;
  DecodeResponse response;
  response.mutable_finished()->set_exact(true);
  response.mutable_finished()->set_choice(start_.sequence().key().choice() + choice);
  Queue(std::move(response));
  if (--unfinished_ == 0) EndWith(grpc::Status::OK);
}

}  // namespace baton
