#include "tests/simulation/decode_sim.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/protocol/worker_status.h"
#include "tests/simulation/sim_open.h"

namespace baton {

using internal::v1::KvDataHeader;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using internal::v1::PushResponse;

namespace {

constexpr int kBlocks = 44;

std::vector<grpc::Slice> Chop(const std::string& bytes, SimRandom& random) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    const auto piece = static_cast<size_t>(random.Between(1, 500));
    const size_t count = std::min(bytes.size() - at, piece);
    slices.emplace_back(bytes.data() + at, count);
    at += count;
  }
  return slices;
}

// The same in every attempt at one choice.
std::string ResumeKey(const SimAttempt& attempt) {
  return absl::StrCat(attempt.request, ".", attempt.key.choice());
}

}  // namespace

DecodeSim::DecodeSim(Sim& sim, Network& network, ControlNetwork& control, int index)
    : sim_(sim),
      network_(network),
      control_(control),
      index_(index),
      layout_(SimLayout(16 * static_cast<int>(sim.random.Between(1, 3)))),
      core_(
          sim, control, {false, index}, layout_.block_size, [this] { return Load(); },
          [this]() -> PrefixPages& { return prefix_cache_->pages(); }),
      window_bytes_(static_cast<uint64_t>(sim.random.Between(1'600, 6'000))),
      receive_timeout_(sim.random.Between(1'000'000, 30'000'000)) {
  memory_.resize(static_cast<size_t>(kBlocks) * layout_.block_bytes());
  control_.AddWorker(
      core_.id(),
      {.process = &core_.process(),
       .opened = [this](ControlNetwork::CallId call,
                        ControlNetwork::Method method) { Opened(call, method); },
       .received =
           [this](ControlNetwork::CallId call, const google::protobuf::Message& message) {
             if (core_.IsWatch(call)) return;
             Received(call, static_cast<const internal::v1::DecodeRequest&>(message));
           },
       .cancelled = [this](ControlNetwork::CallId call) { Cancelled(call); }});
  Restart();
}

DecodeSim::~DecodeSim() { Crash(); }

void DecodeSim::Restart() {
  core_.Boot();
  owners_.assign(kBlocks, nullptr);
  fence_.emplace(4);
  pool_.emplace(kBlocks);
  prefix_cache_.emplace(core_.prefix_identity(), layout_.block_size, *pool_);
  retained_.emplace(layout_.block_size, RetainedPrefixes::Bounds{.max_prefixes = 4}, *pool_);
}

void DecodeSim::Crash() {
  core_.Crash();
  streams_.clear();
  waiting_.clear();
  rpcs_.clear();
  calls_.clear();
  squeezed_.clear();
  retained_.reset();
  prefix_cache_.reset();
  pool_.reset();
}

DecodeSim::Call* DecodeSim::Find(Key key) {
  const auto found = calls_.find(key);
  return found == calls_.end() ? nullptr : &found->second;
}

DecodeSim::Choice* DecodeSim::FindChoice(Key key, uint32_t number) {
  Call* call = Find(key);
  if (call == nullptr) return nullptr;
  const auto found = call->parted.find(number);
  return found == call->parted.end() ? nullptr : &found->second;
}

std::unique_ptr<ReceiveMachine> DecodeSim::MakeReceiver(const SimAttempt& attempt) {
  const std::vector<uint64_t> hashes = PageHashes(SimIdentity(), "", "cpu", attempt.token_ids);
  return std::make_unique<ReceiveMachine>(
      ReceiveConfig{.key = attempt.key,
                    .capability = attempt.capability,
                    .identity = SimIdentity(),
                    .shape = SimShape(layout_.block_size),
                    .layout = layout_,
                    .token_ids = attempt.token_ids,
                    .page_hashes = hashes,
                    .prompt_length = attempt.prompt_length,
                    .choices = static_cast<int>(attempt.choices),
                    .vocab_size = kSimVocab,
                    .limits = {.window_bytes = window_bytes_,
                               .reservation_timeout = absl::Seconds(30),
                               .receive_timeout = absl::Microseconds(receive_timeout_)}},
      sim_.queue.time());
}

void DecodeSim::Request(Network::StreamId stream, const std::string& bytes) {
  const auto bound = streams_.find(stream);
  if (bound == streams_.end()) return Open(stream, bytes);
  const Key key = bound->second;
  Call* call = Find(key);
  if (call == nullptr) return;
  std::vector<grpc::Slice> slices = Chop(bytes, sim_.random);
  if (!IsKvData(slices)) {
    ReceiveEvent::ControlReceived control{stream, {}};
    if (!control.message.ParseFromString(bytes)) {
      return Deliver(key, ReceiveEvent::Malformed{stream, "not a message"});
    }
    return Deliver(key, control);
  }
  absl::StatusOr<KvDataMessage> data = DecodeKvData(std::move(slices));
  if (!data.ok()) {
    return Deliver(key, ReceiveEvent::Malformed{stream, std::string(data.status().message())});
  }
  KvDataHeader header;
  if (Crc32c(data->header.data(), data->header.size()) == data->header_crc32c &&
      header.ParseFromString(data->header)) {
    call->headers[header.sequence_number()] = header;
    if (header.sequence_number() < call->highest_number) ++sim_.coverage.reordered;
    call->highest_number = std::max(call->highest_number, header.sequence_number());
  }
  const uint64_t id = next_message_id_++;
  const ReceiveEvent::DataReceived received{stream, id, data->header, data->header_crc32c,
                                            data->payload_bytes};
  call->messages.emplace(id, *std::move(data));
  Deliver(key, received);
}

// The first message of a stream must open or join a push that is expected.
void DecodeSim::Open(Network::StreamId stream, const std::string& bytes) {
  PushRequest message;
  PushRefused::Reason reason = PushRefused::REASON_OUT_OF_RANGE;
  if (message.ParseFromString(bytes) && (message.has_open() || message.has_join())) {
    const auto& key = message.has_open() ? message.open().key() : message.join().key();
    const auto verdict = fence_->Check(key);
    reason = verdict == AttemptFence::Verdict::kSuperseded ? PushRefused::REASON_SUPERSEDED
                                                           : PushRefused::REASON_UNKNOWN_ATTEMPT;
    const Key own{static_cast<int>(key.request_id_low()), key.attempt()};
    Call* call = verdict == AttemptFence::Verdict::kSuperseded ? nullptr : Find(own);
    if (call != nullptr) {
      streams_[stream] = own;
      call->streams.insert(stream);
      const auto before = call->receiver->state();
      Deliver(own, ReceiveEvent::ControlReceived{stream, message});
      const bool guessed =
          message.has_open() && message.open().capability() != call->attempt.capability;
      if (guessed && call->receiver->state() != before) {
        sim_.Violation("a push opened without its attempt's secret");
      }
      return;
    }
  }
  ++sim_.coverage.refusals[static_cast<size_t>(reason)];
  PushResponse refusal;
  refusal.mutable_refused()->set_reason(reason);
  network_.Answer(stream, refusal.SerializeAsString());
  network_.End(stream);
}

void DecodeSim::Lost(Network::StreamId stream) {
  const auto bound = streams_.find(stream);
  if (bound == streams_.end()) return;
  const Key key = bound->second;
  Deliver(key, ReceiveEvent::StreamLost{stream});
  if (Call* call = Find(key)) {
    call->streams.erase(stream);
    const bool goes_on = call->receiver->state() == ReceiveMachine::State::kReceiving;
    if (goes_on) ++sim_.coverage.joined_streams_lost;
  }
  streams_.erase(stream);
}

void DecodeSim::Deliver(Key key, const ReceiveEvent::Any& event) {
  Call* call = Find(key);
  if (call == nullptr) return;
  const ReceiveMachine::State before = call->receiver->state();
  const std::vector<ReceiveAction::Any> actions = call->receiver->Handle(event, sim_.queue.time());
  const ReceiveMachine::State after = call->receiver->state();
  sim_.coverage.Count(before, event, after);
  sim_.Trace(40 + event.index(), static_cast<uint64_t>(key.first), static_cast<uint64_t>(after));
  for (const ReceiveAction::Any& action : actions) Execute(key, *call, action);
  if (!call->released || !call->messages.empty()) return Arm(key, *call);
  if (after != ReceiveMachine::State::kGone) sim_.Violation("blocks went back before the end");
  // Late messages still reach the machine for a moment, as one that was being read would.
  core_.process().After(sim_.random.Between(0, 2'000), [this, key] {
    Call* over = Find(key);
    if (over == nullptr || !over->copies.empty() || !over->messages.empty()) return;
    for (const Network::StreamId stream : over->streams) {
      network_.End(stream);
      streams_.erase(stream);
    }
    fence_->End(over->attempt.key, over->attempt.choices);
    calls_.erase(key);
  });
}

void DecodeSim::Execute(Key key, Call& call, const ReceiveAction::Any& action) {
  if (std::holds_alternative<ReceiveAction::TakeBlocks>(action)) {
    core_.process().After(sim_.random.Between(10, 5'000), [this, key] { Grant(key); });
  } else if (const auto* send = std::get_if<ReceiveAction::Send>(&action)) {
    OnSend(call, *send);
  } else if (const auto* end = std::get_if<ReceiveAction::EndStream>(&action)) {
    core_.process().After(sim_.random.Between(0, 1'000),
                          [this, stream = end->stream] { network_.End(stream); });
  } else if (const auto* copy = std::get_if<ReceiveAction::Copy>(&action)) {
    BeginCopy(key, call, *copy);
  } else if (const auto* drop = std::get_if<ReceiveAction::Drop>(&action)) {
    if (call.messages.erase(drop->message_id) != 1) sim_.Violation("a message is dropped twice");
    for (const auto& [id, in_flight] : call.copies) {
      if (in_flight.message_id == drop->message_id) sim_.Violation("a message in copy is dropped");
    }
  } else if (const auto* commit = std::get_if<ReceiveAction::CommitSequence>(&action)) {
    Commit(key, call, *commit);
  } else if (const auto* failed = std::get_if<ReceiveAction::Failed>(&action)) {
    if (call.committed || call.failed) sim_.Violation("an attempt fails after its end");
    call.failed = true;
    EndCall(call, TransferFailed(failed->status, core_.id().address()));
    // The call ends with it, and so does the attempt.
    core_.process().After(sim_.random.Between(1, 200), [this, key] {
      if (Find(key) != nullptr) Deliver(key, ReceiveEvent::Cancelled{});
    });
  } else if (const auto* release = std::get_if<ReceiveAction::ReleaseBlocks>(&action)) {
    if (call.released) sim_.Violation("blocks are given back twice");
    if (!call.copies.empty()) sim_.Violation("blocks are given back under a copy");
    if (release->resume_tokens.has_value()) Retain(call, *release->resume_tokens);
    Release(call);
  }
}

// The engine turns the reservation into blocks; what the prefix cache holds is pinned.
void DecodeSim::Grant(Key key) {
  Call* call = Find(key);
  if (call == nullptr || call->granted || call->released ||
      call->receiver->state() != ReceiveMachine::State::kOpen) {
    return;
  }
  const std::vector<int32_t>& tokens = call->attempt.token_ids;
  const std::vector<int32_t> cached = prefix_cache_->Find(tokens, "");
  const std::string name = ResumeKey(call->attempt);
  const RetainedPrefixes::Match more = retained_->Find(name, "", tokens, cached.size());
  Holding& held = call->held;
  held.reservation.GiveUp(TakeCached(held, cached));
  for (const int32_t id : more.blocks) TakeOwn(held, held.reservation.TakeKept(id));
  retained_->Forget(name);
  const auto needed = static_cast<size_t>(layout_.BlocksFor(static_cast<int>(tokens.size())));
  while (held.blocks.size() < needed) TakeOwn(held, held.reservation.Take());
  call->granted = true;
  const int cached_tokens = static_cast<int>(cached.size()) * layout_.block_size;
  call->start_token = std::max(cached_tokens, more.tokens);
  sim_.coverage.cached_tokens += static_cast<uint64_t>(cached_tokens);
  sim_.coverage.resumed_tokens += static_cast<uint64_t>(call->start_token - cached_tokens);
  Deliver(key, ReceiveEvent::Granted{call->start_token});
}

// I1, I5: what is committed is exactly the KV of these tokens.
void DecodeSim::Commit(Key key, Call& call, const ReceiveAction::CommitSequence& commit) {
  const int tokens = static_cast<int>(call.attempt.token_ids.size());
  if (call.committed || call.failed || call.released) sim_.Violation("a commit after the end");
  if (!call.copies.empty()) sim_.Violation("a commit under a copy");
  call.committed = true;
  const uint32_t first = call.attempt.key.choice();
  CheckContent(call.attempt, first, call.held.memory, tokens, "at its commit");
  for (uint32_t i = 0; i < call.attempt.choices; ++i) {
    const auto token = static_cast<int32_t>(commit.first_tokens.at(i).token().token_id());
    if (token != call.attempt.right->choices[first + i].content->NextToken(tokens)) {
      sim_.Violation("a wrong first token");
    }
  }
  EnterBlocks(call);
  retained_->Forget(ResumeKey(call.attempt));
  internal::v1::DecodeResponse response;
  response.mutable_committed()->set_exact(true);
  Tell(call, response);
  BeginDecoding(key);
}

// What the attempt had received waits for the next one at the same request, and for nobody else.
void DecodeSim::Retain(const Call& call, int tokens) {
  if (!call.granted) return;
  tokens = std::max(tokens, call.start_token);
  tokens -= tokens % kKvPageTokens;
  CheckContent(call.attempt, call.attempt.key.choice(), call.held.memory, tokens,
               "when it was retained");
  const auto begin = call.attempt.token_ids.begin();
  retained_->Retain(ResumeKey(call.attempt),
                    {.token_ids = {begin, begin + tokens},
                     .numerics = "",
                     .first_block = call.held.shared_blocks},
                    call.held.blocks, sim_.queue.time());
  core_.process().After(30'000'001, [this] { retained_->ForgetExpired(sim_.queue.time()); });
}

void DecodeSim::Release(Call& call) {
  call.released = true;
  GiveBack(call.held);
  for (auto& [number, choice] : call.parted) GiveBack(choice.held);
  WakeWaiting();
}

void DecodeSim::Arm(Key key, Call& call) {
  const absl::Time deadline = call.receiver->NextDeadline();
  if (deadline == absl::InfiniteFuture()) return;
  const Micros at = absl::ToInt64Microseconds(deadline - absl::UnixEpoch()) + 1;
  if (call.timer >= sim_.queue.now() && call.timer <= at) return;
  call.timer = at;
  core_.process().After(at - sim_.queue.now(), [this, key] {
    Call* due = Find(key);
    if (due == nullptr) return;
    due->timer = -1;
    if (due->receiver->NextDeadline() <= sim_.queue.time()) {
      return Deliver(key, ReceiveEvent::Tick{});
    }
    Arm(key, *due);
  });
}

void DecodeSim::Squeeze() {
  while (pool_->available_blocks() > 2) {
    squeezed_.push_back(*pool_->TryAllocate());
    const auto id = static_cast<size_t>(squeezed_.back().id());
    if (owners_[id] != nullptr) sim_.Violation("a block has two owners");
    uint8_t* first = memory_.data() + id * layout_.block_bytes();
    std::fill(first, first + layout_.block_bytes(), static_cast<uint8_t>(sim_.random.Next()));
  }
}

void DecodeSim::Relax() {
  squeezed_.clear();
  if (!core_.process().up()) return;
  GoOnWithPreempted();
  AdmitWaiting();
}

int DecodeSim::HeldTokens(const std::vector<int32_t>& prompt) const {
  return static_cast<int>(prefix_cache_->Find(prompt, "").size()) * layout_.block_size;
}

}  // namespace baton
